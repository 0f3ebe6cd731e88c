"""Results and errors for the futures of calls and operations. Called by the I/O thread.

Here and not in `futures`, as this module is compiled.
"""

from collections.abc import Sequence
from typing import Any

from purgatory.core.operations.future import CANCELLED_AND_NOTIFIED, FINISHED, PENDING
from purgatory.service.client.batcher import Call
from purgatory.service.client.futures import ReplyFuture, ServiceFuture
from purgatory.service.errors import ServiceError
from purgatory.service.protocol import OutcomeMessage, unpack
from timingwheel.lowlevel import ATOMIC_SECTIONS


def resolve(future: ReplyFuture[Any], result: object) -> None:
    """Set the result of a future, unless it was cancelled."""
    if future._state in (FINISHED, CANCELLED_AND_NOTIFIED):
        future.notify_waiters()  # resolved by a thread that was interrupted, or it is cancelled
        return
    if ATOMIC_SECTIONS and not future._observed and future._state == PENDING:
        # Atomic: a reader finds the future resolved, or was registered before, which sets
        # `_observed`. So there is no waiter to notify.
        future._result = result
        future._state = FINISHED
    # It runs if a thread was interrupted here before.
    elif future.running() or future.set_running_or_notify_cancel():
        future.set_result(result)


def resolve_outcome(future: ServiceFuture, outcome: OutcomeMessage) -> None:
    """End a future as its operation has ended, unless it has an end."""
    if future._state != PENDING:
        return
    if outcome.outcome != "completed":
        future.resolve_without_result(outcome)
        return
    try:
        result = unpack(outcome.result)
    except ServiceError as error:
        future.set_exception(error)
    else:
        resolve(future, result)


def reject(future: ReplyFuture[Any], error: Exception) -> None:
    """Set the error of a future, unless it has an end."""
    if not future.done():
        future.set_exception(error)


def fail_calls(calls: Sequence[Call], error: ServiceError) -> None:
    """Set the error of the futures of calls."""
    for _, future in calls:
        reject(future, error)
