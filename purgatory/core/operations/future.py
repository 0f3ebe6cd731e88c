"""DeferredFuture: the Future form of a delayed operation, which `Purgatory.defer` returns.

Most futures are awaited by a callback, read when done, or dropped. So the operation keeps their
state, and costly parts are made at their first access. The first access registers the future with
its operation, atomically: either the future is done by then, or the resolving thread resolves the
future like the standard library.

Not compiled, like its base class. Any thread.
"""

import concurrent.futures
import logging
import operator
from collections.abc import Callable
from contextvars import Context
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar

from _purgatory_cpython import at_exit
from purgatory.core.operations.operation_state import exception_of
from timingwheel.lowlevel import (
    check_callback,
    in_copies_of,
    is_process_exit,
    keep_for_ever,
    new_condition,
)

log: logging.Logger = logging.getLogger(__name__)

# Names of the standard library.
PENDING: Final = "PENDING"
RUNNING: Final = "RUNNING"
FINISHED: Final = "FINISHED"
CANCELLED_AND_NOTIFIED: Final = "CANCELLED_AND_NOTIFIED"
UNRESOLVED: Final = (PENDING, RUNNING)

_T = TypeVar("_T")


class LazyAttribute(Generic[_T]):
    """An attribute of a future that `make()` makes at its first access.

    `on_first_access(future)` is called first. A condition with its lock, and two lists, are half of
    the price of the standard library's future; no thread waits for most futures here.
    """

    def __init__(self, make: Callable[[], _T], on_first_access: Callable[[Any], None]) -> None:
        self._make = make
        self._on_first_access = on_first_access

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, future: "concurrent.futures.Future[Any] | None", owner: type) -> Any:
        if future is None:  # accessed on the class
            return self
        self._on_first_access(future)
        fields = vars(future)
        # Racing threads get the same value, which hides this descriptor from now on.
        return fields.setdefault(self._name, self._make())


def _on_first_access(future: Any) -> None:
    future._operation.on_first_access(future)


def mark_observed(future: Any) -> None:
    """Note in a future that a thread has accessed a lazy attribute."""
    future.is_observed = True


def _delegated(field: str) -> Any:
    def set_field(future: "DeferredFuture", value: object) -> None:
        setattr(future._operation, field, value)

    return property(operator.attrgetter(f"_operation.{field}"), set_field)


class FastResultFuture(concurrent.futures.Future[_T]):
    """A future whose `result` is quick if already done."""

    __slots__ = ()

    def result(self, timeout: float | None = None) -> _T:
        """See `concurrent.futures.Future`. Takes no lock if there is a result."""
        if self._state == FINISHED and self._exception is None:
            return self._result  # type: ignore[return-value]
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """See `concurrent.futures.Future`."""
        self._wait(timeout)
        return super().exception(0)

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        """See `concurrent.futures.Future`. Raises TypeError for a coroutine function."""
        check_callback("fn", fn)
        # Made before the base looks at the state: then no signal handler comes before it appends.
        _ = self._done_callbacks  # type: ignore[attr-defined]  # the base's
        super().add_done_callback(fn)

    def _wait(self, timeout: float | None) -> None:
        # The base's wait would miss an end by a signal handler of this thread.
        condition: Any = self._condition
        with condition:
            if self._state in UNRESOLVED:
                condition.wait(timeout, lambda: self._state not in UNRESOLVED)

    def set_running_or_notify_cancel(self) -> bool:
        """See `concurrent.futures.Future`. False if it was cancelled, as all waiters know."""
        if self._state == CANCELLED_AND_NOTIFIED:
            return False
        return super().set_running_or_notify_cancel()

    def set_cancelled(self) -> None:
        """Become cancelled, also while running; called by the thread that ends the operation.

        `set_running_or_notify_cancel` may have been called since the request to cancel. Raises
        InvalidStateError if it is done.
        """
        with self._condition:
            self._check_unresolved()
            self._state = CANCELLED_AND_NOTIFIED
            for waiter in self._waiters:
                waiter.add_cancelled(self)
            self._condition.notify_all()
        self._invoke_callbacks()  # type: ignore[attr-defined]  # the base's

    def _check_unresolved(self) -> None:
        if self._state not in UNRESOLVED:
            raise concurrent.futures.InvalidStateError(f"{self._state}: {self!r}")

    def notify_waiters(self) -> None:
        """Wake the threads waiting for a done future. Idempotent.

        The resolving thread may have been interrupted.
        """
        with self._condition:
            for waiter in self._waiters:
                if self not in waiter.finished_futures:
                    waiter.add_result(self)
            self._condition.notify_all()


class DeferredFuture(FastResultFuture[Any]):
    """A `concurrent.futures.Future` that ends with its operation.

    `result()`: the value of the completed key, or, with need > 1, a dict key -> value of those
    that completed it. Raises OperationExpired (a TimeoutError) after the timeout, the error of
    `Purgatory.fail`, and OperationCancelled when the purgatory ended it. `asyncio.wrap_future`
    awaits it.
    """

    __slots__ = ("_operation",)
    _operation: Any  # set once: a `DeferredOperation`
    _called = 0  # how many of its callbacks were called

    __init__ = object.__init__
    _state = _delegated("state")
    _result = _delegated("result")
    _exception = _delegated("error")
    _condition = LazyAttribute(new_condition, _on_first_access)
    _waiters = LazyAttribute(list[Any], _on_first_access)
    _done_callbacks = LazyAttribute(list[Any], _on_first_access)

    def result(self, timeout: float | None = None) -> Any:
        """See the class. Warns if the purgatory's own timer was never started: nothing expires.

        Raises PurgatoryForked in a forked child if it has not ended.
        """
        if self._state == FINISHED and self._exception is None:
            return self._result
        if self._state in UNRESOLVED:
            self._operation.on_wait()
        error = super().exception(timeout)
        if error is None:
            return self._result
        try:
            # Other threads extended the error's traceback: start with the traceback at the future's
            # end, kept as the result.
            raise error.with_traceback(self._result)
        finally:
            del error, self  # no cycle through the traceback

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """See `concurrent.futures.Future`, and `result`."""
        if self._state in UNRESOLVED:
            self._operation.on_wait()
        return super().exception(timeout)

    def cancel(self) -> bool:
        """Cancel the operation; False if it has ended otherwise.

        After True, `result` raises `concurrent.futures.CancelledError`. After False another thread
        may still be ending the future or running its callbacks; `result` waits for the end. Also
        False after you have called `set_running_or_notify_cancel`; then the operation goes on.
        """
        operation = self._operation
        if self._state == RUNNING:
            return False
        if operation.done() and self._state != PENDING:
            return self.cancelled()
        operation.cancel_requested = True
        operation.cancel()
        # The busy thread may cancel the future later.
        return bool(operation.cancelled())

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it belongs to an operation")

    def extend(self, timeout: float | timedelta) -> bool:
        """Restart the timeout from now; False if the future has ended.

        `timeout`: seconds or a timedelta. Raises TypeError and ValueError for a bad one.
        """
        return bool(self._operation.extend(timeout))

    def set_result(self, result: Any) -> None:
        """End the operation with a result of your own: outcome completed.

        Raises `concurrent.futures.InvalidStateError` if it has ended, PurgatoryForked in a forked
        child.
        """
        self._resolve_by_hand(result, None)

    def set_exception(self, exception: BaseException | type[BaseException] | None) -> None:
        """End the operation with an error of your own: outcome failed.

        `exception`: an exception, or a class of them; None ends it with the result None. Raises
        `concurrent.futures.InvalidStateError` if it has ended, TypeError for anything else.
        """
        self._resolve_by_hand(None, None if exception is None else exception_of(exception))

    def _resolve_by_hand(self, result: object, error: BaseException | None) -> None:
        if not self._operation.resolve_by_hand(result, error):
            raise concurrent.futures.InvalidStateError(f"{self._state}: {self!r}")

    def set_finished(self, result: object, error: BaseException | None) -> None:
        """Become done; called by the operation."""
        if error is None:
            super().set_result(result)
        else:
            self._check_unresolved()  # first: a result must stay
            self._result = result
            super().set_exception(error)

    def tell_again(self) -> None:
        """Wake the waiting threads and run the callbacks of a done future. Idempotent.

        Called by the operation if the resolving thread was interrupted.
        """
        self.notify_waiters()
        self._invoke_callbacks()

    def _invoke_callbacks(self) -> None:
        """Call each callback once; after an interrupt, a second call does the rest."""
        callbacks = self._done_callbacks
        while self._called < len(callbacks):
            callback = callbacks[self._called]
            # No call in between: an interrupt comes before both, or in the callback.
            self._called += 1
            try:
                callback(self)
            except BaseException as error:
                if is_process_exit(error):
                    raise
                log.exception("callback of %r raised", self)


class ContextFuture(DeferredFuture):
    """A `DeferredFuture` whose callbacks run in copies of a given context."""

    __slots__ = ("_context",)
    _context: Context  # set once

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        check_callback("fn", fn)
        super().add_done_callback(in_copies_of(self._context, fn))


at_exit.register_many(DeferredFuture, "_condition")
keep_for_ever(vars(DeferredFuture)["_operation"])  # used to make each future
