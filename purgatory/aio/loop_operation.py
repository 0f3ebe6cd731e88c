"""LoopOperation: the operation behind a wait on an event loop.

Any thread may end it; the loop's thread submits it.
"""

from collections.abc import Hashable
from datetime import timedelta
from typing import Any

from purgatory.aio.loop_delivery import PORTION, LoopDelivery
from purgatory.core.completion import complete
from purgatory.core.keys import check_need, distinct_keys
from purgatory.core.operations.deferred import DeferredOperation
from purgatory.core.operations.future import CANCELLED_AND_NOTIFIED, FINISHED
from purgatory.core.operations.operation_state import UNAFFECTED, Claim, timeout_error
from purgatory.core.parts import PurgatoryParts
from purgatory.core.submission import submit


class LoopOperation(DeferredOperation):
    """A `DeferredOperation` that resolves a future of an event loop."""

    __slots__ = ("_waiting", "cancel_message", "delivery")

    def __init__(
        self,
        timeout: float | timedelta,
        need: int,
        watch_keys: tuple[Hashable, ...],
        waiting: Any,
        delivery: LoopDelivery,
    ) -> None:
        super().__init__(timeout, need, watch_keys)
        self.delivery: LoopDelivery = delivery
        self.cancel_message: object = None  # for the task that is cancelled
        # The future to resolve; dropped at the end: no reference cycle.
        self._waiting: Any = waiting

    def abandon(self) -> None:
        """Cancel it, and resolve nothing: the waiting task has gone. Any thread."""
        self._waiting = None
        self.cancel()

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        return not self._is_abandoned() and super()._op_complete_key(key, value)

    def _op_count_key(self, key: Hashable, value: object, claim: Claim) -> int:
        return UNAFFECTED if self._is_abandoned() else super()._op_count_key(key, value, claim)

    def _op_fail_key(self, key: Hashable, error: BaseException) -> bool:
        return not self._is_abandoned() and super()._op_fail_key(key, error)

    def _is_abandoned(self) -> bool:
        """Whether its task was cancelled: no event may reach it."""
        waiting = self._waiting
        return waiting is not None and bool(waiting.cancelled())

    def resolve(self, result: object, error: BaseException | None, state: str = FINISHED) -> None:
        """Deliver the result or the error to the future's loop."""
        waiting = self._waiting
        if waiting is not None:
            if error is not None:
                result = error.__traceback__
            elif state == CANCELLED_AND_NOTIFIED:
                result = self.cancel_message
            while not _try_deliver(self.delivery, waiting, result, error, state):
                pass  # needs a few bytes
        self._waiting = None
        self.drop_references()

    def is_unresolved(self) -> bool:
        """Whether the future is still to be resolved."""
        waiting = self._waiting
        return waiting is not None and not waiting.done()


def _try_deliver(
    delivery: LoopDelivery, waiting: Any, result: object, error: BaseException | None, state: str
) -> bool:
    try:
        delivery.deliver(waiting, result, error, state)
    except MemoryError:
        return False
    return True


def submit_wait(
    parts: PurgatoryParts,
    delivery: LoopDelivery,
    waiting: Any,
    keys: tuple[Hashable, ...],
    timeout: Any,
    need: Any,
) -> LoopOperation:
    """Submit an operation that resolves `waiting`. In the loop; raises as `Purgatory.defer`."""
    delivery.check_open(parts.owner.name)
    watch_keys = distinct_keys(keys)
    parts.check_open()
    if type(need) is not int or need != 1:  # any keys can meet that
        need = check_need(need, len(watch_keys))
    try:
        operation = LoopOperation(timeout, need, watch_keys, waiting, delivery)
    except (TypeError, ValueError) as error:
        raise timeout_error(error, timeout) from None
    try:
        submit(parts, operation, watch_keys, is_internal=True)
    except BaseException:
        operation._waiting = None  # no cycle is left behind
        raise
    return operation


def complete_in_loop(
    parts: PurgatoryParts,
    delivery: LoopDelivery,
    key: Hashable,
    value: object,
    limit: Any,
    hold: Any,
) -> int:
    """Do as `Purgatory.complete`, and resolve the loop's futures at once. In the loop."""
    delivery.check_open(parts.owner.name)
    outer = delivery.in_verb
    delivery.in_verb = True
    delivery.direct_left = PORTION
    try:
        return complete(parts, key, value, limit, hold)
    finally:
        delivery.in_verb = outer


def call_in_loop(delivery: LoopDelivery, verb: Any, *arguments: Any) -> Any:
    """Call another verb as `complete_in_loop` does."""
    outer = delivery.in_verb
    delivery.in_verb = True
    delivery.direct_left = PORTION
    try:
        return verb(*arguments)
    finally:
        delivery.in_verb = outer
