"""Callbacks: their order, how deep they nest, and what happens when one raises.

Order: `on_complete` when completed; `on_complete`, then `on_expiration` when expired; `on_cancel`
when cancelled; `on_failure` when failed. Each is called at most once, under no lock, by the thread
that runs the operation's actions (see `lifecycle`). An exception is reported to the owner and stops
nothing.

A callback may complete operations, and their callbacks further ones. From `MAX_NESTED` callbacks
on, further ones are deferred until those around them have returned: otherwise a long chain would
end in a RecursionError.
"""

import logging
from collections import deque
from typing import Final, cast

from purgatory.core._cpython.thread_local import ThreadLocal
from purgatory.core.operations.operation_state import (
    CALLBACKS_DONE,
    ON_COMPLETE_CALLED,
    OperationState,
)
from purgatory.core.operations.outcome import CANCELLED, COMPLETED, EXPIRED
from timingwheel.lowlevel import ATOMIC_SECTIONS, LOCKED_SECTIONS, thread_dict

log: logging.Logger = logging.getLogger(__name__)

# Bound once: compiled, that saves a look into the module's dict for each operation.
_thread_dict: Final = thread_dict

MAX_NESTED: Final = 12

# What `run_next_callback` returns.
DEFERRED: Final = 0
CALLED: Final = 1
CALLED_AND_OTHERS_DEFERRED: Final = 2


class CallbackDepth:
    """How many callbacks are running on a thread, and the operations deferred meanwhile."""

    __slots__ = ("deferred", "depth")

    def __init__(self) -> None:
        self.depth: int = 0
        self.deferred: deque[OperationState] = deque()


class OutermostCallback:
    """Taken by one callback at a time, which then need not look up the depth of its thread.

    Callbacks inside it find it taken, and are counted. So they nest at most one deeper than
    `MAX_NESTED`. It saves 8 % of a pair of submission and completion (7,382 instead of 7,987
    instructions, callgrind): the look into thread-local storage costs as much as the watch lists.
    """

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active: bool = False  # read and written in atomic sections; not used without them


_CALLBACK_DEPTH: Final = ThreadLocal(CallbackDepth)
OUTERMOST_CALLBACK: Final = OutermostCallback()


def callback_depth() -> CallbackDepth:
    """Return how deep the callbacks of this thread are nested."""
    if not LOCKED_SECTIONS:
        return _CALLBACK_DEPTH.value
    fields = _thread_dict()
    found = fields.get("purgatory.callback_depth")
    if found is None:
        found = fields["purgatory.callback_depth"] = CallbackDepth()
    return cast("CallbackDepth", found)


def run_next_callback(operation: OperationState) -> int:
    """Call the next callback of an operation, or defer it if too many are running."""
    nesting = None
    if ATOMIC_SECTIONS and not OUTERMOST_CALLBACK.active:
        OUTERMOST_CALLBACK.active = True
    else:
        nesting = callback_depth()
        if nesting.depth >= MAX_NESTED:
            nesting.deferred.append(operation)
            return DEFERRED
        nesting.depth += 1
    try:
        _call_next(operation)
    except Exception as error:  # noqa: BLE001  # whatever user code raises is reported
        report(operation, error)
    finally:
        if nesting is None:
            OUTERMOST_CALLBACK.active = False
        else:
            nesting.depth -= 1
    if nesting is not None and nesting.deferred:
        return CALLED_AND_OTHERS_DEFERRED
    return CALLED


def _call_next(operation: OperationState) -> None:
    """Each callback is marked just before it is called, without a call in between."""
    outcome = operation._op_outcome
    if outcome is EXPIRED and operation._op_stage != ON_COMPLETE_CALLED:
        operation._op_stage = ON_COMPLETE_CALLED
        operation.on_complete()
        return
    operation._op_stage = CALLBACKS_DONE
    if outcome is COMPLETED:
        operation.on_complete()
    elif outcome is EXPIRED:
        operation.on_expiration()
    elif outcome is CANCELLED:
        operation.on_cancel()
    else:
        operation.on_failure()


def report(operation: OperationState, error: Exception) -> None:
    """Report an exception of user code to the operation's owner; log it if there is none."""
    owner = operation._op_owner
    if owner is not None:
        owner.report(error, operation)
    else:
        log.error("%r raised", operation, exc_info=error)
