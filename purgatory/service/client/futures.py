"""The futures of a client: the reply to a call, and the end of an operation.

Made by any thread; resolved by the I/O thread.
"""

import concurrent.futures
import contextlib
import logging
import math
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from _purgatory_cpython import at_exit
from _purgatory_cpython.fork import FORK_COUNTER
from purgatory.core.operations.future import (
    FINISHED,
    PENDING,
    RUNNING,
    UNRESOLVED,
    FastResultFuture,
    LazyAttribute,
    mark_observed,
)
from purgatory.errors import OperationCancelled, OperationExpired
from purgatory.service.client.arguments import Duration
from purgatory.service.encoding import unpack
from purgatory.service.errors import OperationFailed, ServiceError, Unavailable
from purgatory.service.platform import Platform
from purgatory.service.protocol import OutcomeMessage
from timingwheel.lowlevel import new_condition

log: logging.Logger = logging.getLogger(__name__)

#: A copy of a client does nothing in a forked child.
MADE_BEFORE_FORK: Final = "the client was made before fork; make one in this process"

_T = TypeVar("_T")


class ReplyFuture(FastResultFuture[_T]):
    """The reply to a call.

    The condition and the lists are made on first access, which sets `is_observed`. Until then,
    where atomic sections exist (see `purgatory.core.operations.future`), `calls.resolve` needs no
    lock.

    In a forked child, without I/O thread, an unresolved future raises Unavailable.
    """

    __slots__ = ("_exception", "_forks", "_result", "_state")
    _state: str
    _forks: int  # FORK_COUNTER at its creation

    is_observed = False
    _condition = LazyAttribute(new_condition, mark_observed)
    _waiters = LazyAttribute(list[Any], mark_observed)
    _done_callbacks = LazyAttribute(list[Any], mark_observed)

    def __init__(self) -> None:
        # The base's `__init__` would make the lazy fields.
        self._state = PENDING
        self._result = None
        self._exception = None
        self._forks = FORK_COUNTER.value

    def result(self, timeout: float | None = None) -> _T:
        if self._state == FINISHED and self._exception is None:
            return self._result  # type: ignore[return-value]  # finished: not None
        self._check_not_forked()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """See `concurrent.futures.Future`."""
        self._check_not_forked()
        return super().exception(timeout)

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it belongs to a client")

    def _check_not_forked(self) -> None:
        if self._forks != FORK_COUNTER.value and self._state in UNRESOLVED:
            raise Unavailable(MADE_BEFORE_FORK)

    def _invoke_callbacks(self) -> None:
        for callback in self._done_callbacks:
            try:
                callback(self)
            except BaseException as error:
                ctrl_c = threading.current_thread() is threading.main_thread()
                if ctrl_c and isinstance(
                    error, KeyboardInterrupt
                ):  # in `cancel`, not of a callback
                    raise
                log.exception("a callback of %r raised", self)


at_exit.register_many(ReplyFuture, "_condition")


class _NoCondition(contextlib.nullcontext[None]):
    """The condition of a future for which no thread waits."""

    def notify_all(self) -> None:
        """Wake no thread."""


class HandledReply(ReplyFuture[_T]):
    """The reply to a call for which no thread waits: the I/O thread calls `on_answer`.

    `add_done_callback` would need a condition.
    """

    is_observed = True  # so `calls.resolve` calls `on_answer`
    _condition: Any = _NoCondition()
    _waiters: Any = ()

    def __init__(self, on_answer: Callable[["HandledReply[_T]"], None]) -> None:
        super().__init__()
        self._done_callbacks = [on_answer]


class SubmissionReceipt(NamedTuple):
    """The answer to `Client.submit`: "pending", or how a known operation has ended."""

    op_id: str
    state: str


class OperationControl(Protocol):
    """The part of a client that a `ServiceFuture` uses."""

    timeout: float
    platform: Platform

    def cancel(self, operation: str) -> bool:
        """See `Client.cancel`."""

    def extend(self, operation: str, timeout: Duration) -> bool:
        """See `Client.extend`."""


class ServiceFuture(ReplyFuture[Any]):
    """The end of an operation that waits at a server; see `Client.defer`.

    `acknowledged`: the operation is on disk.
    """

    def __init__(self, client: OperationControl, op_id: str, give_up_at: float = math.inf) -> None:
        # `super().__init__()` would be one call more.
        self._state = PENDING
        self._result = None
        self._exception = None
        self._forks = FORK_COUNTER.value
        self.op_id = op_id
        self.acknowledged = False  # written by the I/O thread
        self.give_up_at = give_up_at  # while no server answers
        self._client = client
        self._cancel_requested = False

    def result(self, timeout: float | None = None) -> Any:
        """See `concurrent.futures.Future`, and `Client.defer` for errors."""
        if self._state in UNRESOLVED:
            timeout = self._pass_time(timeout)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if self._state in UNRESOLVED:
            timeout = self._pass_time(timeout)
        return super().exception(timeout)

    def _pass_time(self, timeout: float | None) -> float | None:
        """Return the seconds to wait; simulated time passes here."""
        return self._client.platform.wait(self.done, timeout)

    def cancel(self) -> bool:
        """Have the server cancel the operation, like `Client.cancel`; False if ended otherwise.

        False, too, after `set_running_or_notify_cancel`, as of any future: the operation goes on.
        """
        if self._state == RUNNING or self.done():
            return self.cancelled()
        self._cancel_requested = True
        if self._client.cancel(self.op_id):
            concurrent.futures.wait([self], self._pass_time(self._client.timeout))
        return self.cancelled()

    def extend(self, timeout: Duration) -> bool:
        """See `Client.extend`."""
        return self._client.extend(self.op_id, timeout)

    def resolve_without_result(self, outcome: OutcomeMessage) -> None:
        """Expire, fail or cancel the future."""
        if outcome.outcome == "expired":
            waited_ms = outcome.deadline_ms - outcome.submitted_ms
            self.set_exception(
                OperationExpired(f"operation {self.op_id!r} not completed within {waited_ms} ms")
            )
        elif outcome.outcome == "failed":
            self.set_exception(_failure(outcome))
        elif self._cancel_requested:
            self.set_cancelled()
        else:
            self.set_exception(OperationCancelled(f"operation {self.op_id!r} was cancelled"))


def _failure(outcome: OutcomeMessage) -> Exception:
    try:
        error_type, message, *_ = unpack(outcome.result)
        return OperationFailed(str(error_type), str(message))
    except (ServiceError, TypeError, ValueError):  # of a later version
        return OperationFailed("failed")
