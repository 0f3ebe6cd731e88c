"""Ways to wait for a key in an event loop: `AsyncPurgatory`, and what programs write without it.

Each has `wait(keys, timeout)` and `complete(key, value)`, both for the loop's thread.
"""

import asyncio
from types import TracebackType
from typing import Any, Protocol, Self

from purgatory import Purgatory
from purgatory.aio import AsyncPurgatory


class Way(Protocol):
    """What the benchmark needs of each."""

    async def wait(self, keys: tuple[object, ...], timeout: float) -> Any:
        """Wait for one of the keys."""

    def complete(self, key: object, value: object) -> object:
        """Complete a key."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class Ours(AsyncPurgatory):
    """AsyncPurgatory as it is; its keys are not in a tuple."""

    def wait(self, keys: Any, timeout: Any) -> Any:  # type: ignore[override]
        """Pass the keys on; adds no coroutine of its own."""
        return AsyncPurgatory.wait(self, *keys, timeout=timeout)


class _Loop:
    """What the ways without a purgatory have in common."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class ByHand(_Loop):
    """A dict of futures, and `call_later`."""

    def __init__(self) -> None:
        super().__init__()
        self.futures: dict[object, asyncio.Future[Any]] = {}

    async def wait(self, keys: tuple[object, ...], timeout: float) -> Any:
        """See `Way`."""
        future = self.loop.create_future()
        handle = self.loop.call_later(timeout, self.expire, keys, future)
        for key in keys:
            self.futures[key] = future
        try:
            return await future
        finally:
            handle.cancel()
            for key in keys:
                self.futures.pop(key, None)

    def expire(self, keys: tuple[object, ...], future: "asyncio.Future[Any]") -> None:
        """End one that took too long."""
        if not future.done():
            future.set_exception(TimeoutError(keys))

    def complete(self, key: object, value: object) -> None:
        """See `Way`."""
        future = self.futures.pop(key, None)
        if future is not None and not future.done():
            future.set_result(value)


class EventAndWaitFor(_Loop):
    """A dict of `asyncio.Event`, and `asyncio.wait_for`."""

    def __init__(self) -> None:
        super().__init__()
        self.events: dict[object, asyncio.Event] = {}
        self.values: dict[object, object] = {}

    async def wait(self, keys: tuple[object, ...], timeout: float) -> Any:
        """See `Way`."""
        event = asyncio.Event()
        for key in keys:
            self.events[key] = event
        try:
            await asyncio.wait_for(event.wait(), timeout)
            return next(self.values.pop(key) for key in keys if key in self.values)
        finally:
            for key in keys:
                self.events.pop(key, None)

    def complete(self, key: object, value: object) -> None:
        """See `Way`."""
        event = self.events.pop(key, None)
        if event is not None:
            self.values[key] = value
            event.set()


class WrapFuture(_Loop):
    """A started `Purgatory`, and `asyncio.wrap_future`."""

    def __init__(self) -> None:
        super().__init__()
        self.purgatory = Purgatory()
        self.purgatory.start()

    async def wait(self, keys: tuple[object, ...], timeout: float) -> Any:
        """See `Way`."""
        return await asyncio.wrap_future(self.purgatory.defer(*keys, timeout=timeout))

    def complete(self, key: object, value: object) -> None:
        """See `Way`."""
        self.purgatory.complete(key, value)

    async def __aexit__(self, *_: object) -> None:
        self.purgatory.close()


WAYS: dict[str, type[Way]] = {
    "AsyncPurgatory": Ours,
    "by hand": ByHand,
    "Event and wait_for": EventAndWaitFor,
    "wrap_future": WrapFuture,
}
