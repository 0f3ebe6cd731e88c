"""AsyncClient: delayed operations at a server in another process, for asyncio.

It wraps a `Client` with its I/O thread. Its methods are called in the thread of an event loop, and
their futures resolve there.
"""

import asyncio
import builtins
import concurrent.futures
import contextlib
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from purgatory.errors import OperationCancelled
from purgatory.service.client.calls import in_messages
from purgatory.service.client.client import CLOSE_TIMEOUT_S, DEFAULT_ADDRESS, PAGE, Client
from purgatory.service.client.futures import ReplyFuture, ServiceFuture, SubmissionReceipt
from purgatory.service.client.later_calls import checked_limit
from purgatory.service.client.outcomes import OnOutcome
from purgatory.service.client.trace_context import OperationTracer
from purgatory.service.errors import RequestTimeout
from purgatory.service.platform import REAL_PLATFORM, Platform
from purgatory.service.protocol import DeadJob, Operations, OperationStatus, OutcomeMessage

if TYPE_CHECKING:
    from purgatory.service.client.later_calls import LaterCalls

#: Calls of `on_outcome` that run at a time; further outcomes wait for their turn.
MAX_RUNNING: Final = 64

_T = TypeVar("_T")


class AsyncClient:
    """A `Client` for asyncio, with the same arguments. Use `async with`, or `close` it.

    `on_outcome` is called in the running event loop, and may be a coroutine function: then the
    outcome is acknowledged when that has returned. Up to 64 run at a time. Raises RuntimeError if
    there is an `on_outcome` and no running loop.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        name: str | None = None,
        timeout: float = 30.0,
        server_key: str | bytes | None = None,
        public_key: str | bytes | None = None,
        secret_key: str | bytes | None = None,
        on_outcome: OnOutcome | None = None,
        tracer: OperationTracer | None = None,
        platform: Platform = REAL_PLATFORM,
    ) -> None:
        self._handler = None if on_outcome is None else LoopHandler(on_outcome)
        self._client = Client(
            address,
            name=name,
            timeout=timeout,
            server_key=server_key,
            public_key=public_key,
            secret_key=secret_key,
            on_outcome=self._handler,
            tracer=tracer,
            platform=platform,
        )
        #: The calls themselves, whose futures `result_of` waits for.
        self.calls: LaterCalls = self._client
        self.name: str = self._client.name
        self.address = address

    def defer(
        self,
        *keys: str,
        timeout: float | timedelta = 30.0,
        need: int = 1,
        kind: str = "",
        op_id: str | None = None,
        payload: Any = None,
    ) -> "AsyncServiceFuture":
        """Like `Client.defer`, but returns an asyncio future, to be awaited."""
        return AsyncServiceFuture(
            self,
            self._client.defer(
                *keys, timeout=timeout, need=need, kind=kind, op_id=op_id, payload=payload
            ),
        )

    async def submit(
        self,
        *keys: str,
        timeout: float | timedelta = 30.0,
        need: int = 1,
        kind: str = "",
        op_id: str | None = None,
        payload: Any = None,
    ) -> SubmissionReceipt:
        """Like `Client.submit`."""
        submission = self._client._submission(keys, timeout, need, kind, op_id, payload)
        return await self.result_of(self._client._submit(submission, needs_id=op_id is None))

    async def schedule(
        self,
        delay: float | timedelta,
        *,
        kind: str = "",
        payload: Any = None,
        job_id: str | None = None,
        unless: Iterable[str] = (),
    ) -> str:
        """Like `Client.schedule`."""
        reply = self._client.schedule_later(
            delay, kind=kind, payload=payload, job_id=job_id, unless=unless
        )
        return (await self.result_of(reply)).op_id

    async def complete(
        self,
        key: str,
        value: Any = None,
        *,
        limit: int | None = None,
        hold: float | timedelta = 0.0,
    ) -> int:
        """Like `Client.complete`."""
        return await self.result_of(self._client.complete_later(key, value, limit=limit, hold=hold))

    async def fail(self, key: str, error: Exception | type[Exception]) -> int:
        """Like `Client.fail`."""
        return await self.result_of(self._client.fail_later(key, error))

    async def extend(
        self, operation: "str | asyncio.Future[Any]", timeout: float | timedelta
    ) -> bool:
        """Like `Client.extend`."""
        return await self.result_of(self._client.extend_later(_op_id(operation), timeout))

    async def cancel(self, operation: "str | asyncio.Future[Any]") -> bool:
        """Like `Client.cancel`."""
        return await self.result_of(self._client.cancel_later(_op_id(operation)))

    async def query(self, operation: "str | asyncio.Future[Any]") -> OperationStatus:
        """Like `Client.query`."""
        return await self.result_of(self._client.query_later(_op_id(operation)))

    async def unread(self, after: int = 0) -> builtins.list[OutcomeMessage]:
        """Like `Client.unread`."""
        return await self.result_of(self._client.unread_later(after))

    async def acknowledge(self, numbers: Iterable[int]) -> int:
        """Like `Client.acknowledge`."""
        return await self._total(self._client.acknowledge_later, numbers)

    async def dead_jobs(self, after: int = 0) -> builtins.list[DeadJob]:
        """Like `Client.dead_jobs`."""
        return await self.result_of(self._client.dead_jobs_later(after))

    async def retry_dead(self, numbers: Iterable[int]) -> int:
        """Like `Client.retry_dead`."""
        return await self._total(self._client.retry_dead_later, numbers)

    async def drop_dead(self, numbers: Iterable[int]) -> int:
        """Like `Client.drop_dead`."""
        return await self._total(self._client.drop_dead_later, numbers)

    async def list(
        self,
        *,
        kind: str | None = None,
        key: str | None = None,
        client: str | None = None,
        state: str | None = None,
        cursor: int = 0,
        limit: int | None = None,
    ) -> AsyncIterator[OperationStatus]:
        """Like `Client.list`: `async for operation in client.list()`."""
        left = sys.maxsize if limit is None else checked_limit(limit)
        after: int | None = cursor
        while after is not None and left > 0:
            reply = self._client._list(after, min(left, PAGE), kind, key, client, state)
            page = await self.result_of(reply)
            for status in page.states:
                yield status
            left -= len(page.states)
            after = page.after

    async def list_page(
        self,
        *,
        kind: str | None = None,
        key: str | None = None,
        client: str | None = None,
        state: str | None = None,
        cursor: int = 0,
        limit: int = 100,
    ) -> Operations:
        """Like `Client.list_page`."""
        return await self.result_of(self._client._list(cursor, limit, kind, key, client, state))

    async def stats(self) -> dict[str, int | float]:
        """Like `Client.stats`."""
        return await self.result_of(self._client.stats_later())

    async def flush(self, timeout: float | None = None) -> None:
        """Like `Client.flush`."""
        await asyncio.to_thread(self._client.flush, timeout)

    async def _total(
        self, call: Callable[[builtins.list[int]], ReplyFuture[int]], numbers: Iterable[int]
    ) -> int:
        """Sum what a call returns for numbers, which are sent in several messages if they are many.

        One after the other: of what is refused, nothing more is sent.
        """
        return sum([await self.result_of(call(some)) for some in in_messages(numbers)])

    async def result_of(self, future: ReplyFuture[_T]) -> _T:
        """Return the result of one of `calls`; raises RequestTimeout, and what it raises."""
        try:
            return await asyncio.wait_for(_wrapped(future), self._client.timeout)
        except TimeoutError as error:
            raise RequestTimeout(
                f"no answer from {self.address} within {self._client.timeout:g} s"
            ) from error

    async def close(self, timeout: float | None = None) -> None:
        """Like `Client.close`, after the calls of `on_outcome` that run, for as long at most."""
        if self._handler is not None:
            await self._handler.close(CLOSE_TIMEOUT_S if timeout is None else timeout)
        await asyncio.to_thread(self._client.close, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class LoopHandler:
    """Calls `call`, which may be a coroutine function, in the running event loop."""

    def __init__(self, call: OnOutcome) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(MAX_RUNNING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def __call__(self, outcome: OutcomeMessage) -> "concurrent.futures.Future[None]":
        """Have an outcome handled; the future tells how that ended. Raises RuntimeError."""
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._loop.call_soon_threadsafe(self._start, outcome, done)
        return done

    def _start(self, outcome: OutcomeMessage, done: "concurrent.futures.Future[None]") -> None:
        if self._closing:
            return  # the outcome stays at the server
        task = self._loop.create_task(self._run(outcome, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, outcome: OutcomeMessage, done: "concurrent.futures.Future[None]") -> None:
        try:
            async with self._room:
                result: Any = self._call(outcome)
                if inspect.isawaitable(result):
                    await result
        except asyncio.CancelledError:
            done.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # told by the future
            done.set_exception(error)
        else:
            done.set_result(None)

    async def close(self, seconds: float) -> None:
        """Start no more calls, and wait for those that run, for so many seconds at most."""
        self._closing = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)


class AsyncServiceFuture(asyncio.Future[Any]):
    """The end of an operation, as a future of an event loop; see `AsyncClient.defer`.

    `op_id` is the operation's id at the server. Cancelling the future cancels the operation.
    """

    def __init__(self, owner: AsyncClient, source: ServiceFuture) -> None:
        super().__init__()
        self.op_id: str = source.op_id
        self._owner = owner
        _chain(source, self)

    async def extend(self, timeout: float | timedelta) -> bool:
        """Like `ServiceFuture.extend`, and awaits the answer."""
        return await self._owner.extend(self.op_id, timeout)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel this future at once, and have the server cancel the operation."""
        cancelled = super().cancel(msg)
        if cancelled:
            self._owner._client.cancel_later(self.op_id)
        return cancelled


def _wrapped(source: ReplyFuture[_T]) -> "asyncio.Future[_T]":
    target: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
    _chain(source, target)
    return target


def _chain(source: ReplyFuture[Any], target: "asyncio.Future[Any]") -> None:
    """Resolve `target`, in its loop, when `source` is resolved."""
    loop = target.get_loop()

    def schedule_copy(_: "concurrent.futures.Future[Any]") -> None:
        # A closed loop raises RuntimeError; nothing awaits the target any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_copy_result, source, target)

    source.add_done_callback(schedule_copy)


def _copy_result(source: ReplyFuture[Any], target: "asyncio.Future[Any]") -> None:
    if target.done():
        return
    error = OperationCancelled("it was cancelled") if source.cancelled() else source.exception()
    if error is None:
        target.set_result(source.result())
    else:
        target.set_exception(error)


def _op_id(operation: "str | asyncio.Future[Any]") -> str:
    if isinstance(operation, AsyncServiceFuture):
        return operation.op_id
    return operation  # type: ignore[return-value]  # `Client` checks it
