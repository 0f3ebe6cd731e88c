"""AsyncPurgatory: a purgatory on an event loop.

The loop drives the timer, and the operations end in it, so no thread is needed. Only the loop's
thread may call, unless stated otherwise.
"""

import asyncio
from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from purgatory.aio.loop_delivery import LoopDelivery
from purgatory.aio.loop_driver import LoopDriver
from purgatory.aio.loop_future import LoopFuture
from purgatory.aio.loop_operation import LoopOperation, call_in_loop, complete_in_loop, submit_wait
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.outcome_recorder import Journal, OnError
from purgatory.core.purgatory import DEFAULT_MAX_HELD, Purgatory
from purgatory.core.purgatory_core import bus_of, parts_of
from purgatory.errors import WrongEventLoop
from purgatory.registry import PurgatoryStats
from timingwheel import InlineExecutor, Timer
from timingwheel.lowlevel import check_count, check_name

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


_DEFAULT_NAME = "purgatory"


class AsyncPurgatory:
    """Waits for watch keys in an event loop: asyncio's, uvloop's, or a framework's on top.

    `purgatory`: a purgatory to adopt, which threads may use, too, neither started nor closed here.
    None: a new purgatory, whose timer the loop drives. The other arguments are for a new purgatory,
    and refused (ValueError) with one to adopt: see `Purgatory`, and `Timer` for `clock`.

    An AsyncPurgatory belongs to the first loop of use. `async with` closes the purgatory. Other
    loops and threads get WrongEventLoop, unless a method says "any thread".
    """

    def __init__(
        self,
        name: str = _DEFAULT_NAME,
        *,
        purgatory: Purgatory | None = None,
        clock: Callable[[], int] | None = None,
        on_error: OnError | None = None,
        journal: Journal | None = None,
        registry: "CollectorRegistry | None" = None,
        max_held: int = DEFAULT_MAX_HELD,
    ) -> None:
        self._own_timer: Timer | None = None
        if purgatory is None:
            self._own_timer = Timer(name, clock=clock, executor=InlineExecutor())
            purgatory = Purgatory(
                name,
                timer=self._own_timer,
                on_error=on_error,
                journal=journal,
                registry=registry,
                max_held=max_held,
            )
        elif not isinstance(purgatory, Purgatory):
            raise TypeError(f"purgatory is {purgatory!r}; expected a Purgatory or None")
        else:
            _check_nothing_else(name, max_held, (clock, on_error, journal, registry))
        self._purgatory = purgatory
        self._parts = parts_of(purgatory)
        self._delivery: LoopDelivery | None = None
        self._driver: LoopDriver | None = None

    @property
    def purgatory(self) -> Purgatory:
        """The purgatory, for threads. Any thread."""
        return self._purgatory

    @property
    def name(self) -> str:
        """Its name. Any thread."""
        return self._purgatory.name

    async def wait(self, *keys: Hashable, timeout: float | timedelta = 30.0, need: int = 1) -> Any:
        """Wait until `need` distinct keys have been completed.

        Returns the value of the key, or with need > 1 a dict key -> value. `timeout` in seconds, or
        a timedelta. Raises OperationExpired (a TimeoutError), the error of `fail`,
        OperationCancelled when the purgatory is closed, and what `defer` raises.

        Cancelling the task cancels the operation. If a key was completed just before, the task is
        cancelled all the same; with `defer`, the future then has the value.
        """
        delivery = self._delivery or self._bind()
        waiting = delivery.loop.create_future()
        operation = submit_wait(self._parts, delivery, waiting, keys, timeout, need)
        try:
            return await waiting
        except BaseException:
            if not operation.done():
                operation.abandon()
            raise
        finally:
            del waiting  # no cycle through the traceback

    def defer(
        self, *keys: Hashable, timeout: float | timedelta = 30.0, need: int = 1
    ) -> LoopFuture:
        """Begin to wait at once, and return a future to await. Arguments as for `wait`.

        Raises TypeError and ValueError for bad arguments, TimerFull, PurgatoryClosed,
        WrongEventLoop.
        """
        delivery = self._delivery or self._bind()
        future = LoopFuture(loop=delivery.loop)
        future._operation = submit_wait(self._parts, delivery, future, keys, timeout, need)
        return future

    def complete(
        self,
        key: Hashable,
        value: object = None,
        *,
        limit: int | None = None,
        hold: float | timedelta = 0.0,
    ) -> int:
        """Complete a key: waiting futures get `value`. Returns how many operations completed.

        See `Purgatory.complete` for `limit`, `hold` and errors. Raises WrongEventLoop.
        """
        delivery = self._delivery or self._bind()
        return complete_in_loop(self._parts, delivery, key, value, limit, hold)

    def complete_threadsafe(
        self,
        key: Hashable,
        value: object = None,
        *,
        limit: int | None = None,
        hold: float | timedelta = 0.0,
    ) -> int:
        """Complete a key from any thread, a signal handler or a finalizer; else as `complete`.

        The tasks run in the loop soon.
        """
        return self._purgatory.complete(key, value, limit=limit, hold=hold)

    def fail(self, key: Hashable, error: Exception | type[Exception]) -> int:
        """Fail a key: waiting futures raise `error`. Returns how many operations ended.

        See `Purgatory.fail`. Raises TypeError for a bad error, PurgatoryClosed, WrongEventLoop.
        """
        delivery = self._delivery or self._bind()
        delivery.check_open(self.name)
        return int(call_in_loop(delivery, self._purgatory.fail, key, error))

    def fail_threadsafe(self, key: Hashable, error: Exception | type[Exception]) -> int:
        """Fail a key from any thread, a signal handler or a finalizer; else as `fail`."""
        return self._purgatory.fail(key, error)

    def extend(self, operation: LoopFuture | DelayedOperation, timeout: float | timedelta) -> bool:
        """Restart the timeout of an operation, or of a future of `defer`, from now.

        False if it has ended. Any thread. Raises as `LoopFuture.extend` and `Purgatory.extend`.
        """
        if isinstance(operation, LoopFuture):
            return operation.extend(timeout)
        return self._purgatory.extend(operation, timeout)

    @property
    def watched(self) -> int:
        """See `Purgatory.watched`. Any thread."""
        return self._purgatory.watched

    @property
    def delayed(self) -> int:
        """See `Purgatory.delayed`. Any thread."""
        return self._purgatory.delayed

    def stats(self) -> PurgatoryStats:
        """See `Purgatory.stats`. Any thread."""
        return self._purgatory.stats()

    async def close(self) -> None:
        """End all operations of this loop: their futures raise OperationCancelled. Idempotent.

        When this returns, the waiting tasks have run. An own purgatory is closed; an adopted one
        lives on, with the operations of its threads and other loops. In a forked child: nothing.
        """
        if self._parts.owner.forked:
            return
        delivery = self._delivery or self._bind()
        delivery.check_loop(self.name)
        delivery.is_closed = True
        if self._driver is not None:
            self._driver.stop()
        if self._own_timer is not None:
            self._purgatory.close()
            self._own_timer.close()
        else:
            self._cancel_own(delivery)
        while not delivery.is_idle:
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # the last tasks run

    def _cancel_own(self, delivery: LoopDelivery) -> None:
        for operation in self._parts.lists.all():
            if isinstance(operation, LoopOperation) and operation.delivery is delivery:
                operation.cancel()

    def _bind(self) -> LoopDelivery:
        """Belong to the running loop from now on."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise WrongEventLoop(
                f"async purgatory {self.name!r} was used where no event loop runs"
            ) from error
        delivery = LoopDelivery(loop)
        if self._own_timer is not None:
            self._driver = LoopDriver(self._own_timer, bus_of(self._purgatory), delivery)
            self._driver.start()
        self._delivery = delivery
        return delivery

    async def __aenter__(self) -> Self:
        delivery = self._delivery or self._bind()
        delivery.check_open(self.name)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it belongs to an event loop")

    def __repr__(self) -> str:
        return f"<AsyncPurgatory {self.name!r}, {self.delayed} pending>"


def _check_nothing_else(name: str, max_held: int, others: tuple[object, ...]) -> None:
    check_name(name)
    given = any(other is not None for other in others)
    if given or name != _DEFAULT_NAME or check_count("max_held", max_held, 0) != DEFAULT_MAX_HELD:
        raise ValueError("an adopted purgatory has a name, a clock, an on_error and so on already")
