"""Completion of a watch key: acts on the operations that the watch lists return.

The thread that completes a key calls operations, under no lock. Any thread.

A held event becomes visible before waiting operations are looked up, and an operation enters the
lists before its submission looks for held events. So no operation misses the event; meeting the
event twice counts once. While a limited event is spread, a submission first offers the event to
operations that have waited longer. A returned unit is offered only to operations that were refused
one: the event may have expired since.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final, cast

from purgatory.bus.commands import CompleteKey, FailKey, KeyCommand
from purgatory.core.held_events import UNLIMITED, HeldEvent, HeldEvents, check_limit
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import (
    CANCELLED,
    COMPLETED,
    IN_DOUBT,
    PROGRESSED,
    UNAFFECTED,
    WON,
    Claim,
    exception_of,
)
from purgatory.core.operations.outcome_race import finalize, finish, request_check
from purgatory.core.parts import PurgatoryParts
from timingwheel.lowlevel import COMPILED, to_ns


class _Claim(Claim):
    """A claim on an event; a returned unit is offered to the refused operations."""

    def __init__(self, held: HeldEvents, event: HeldEvent) -> None:
        super().__init__()
        self._held = held
        self._event = event
        self._refused: list[DelayedOperation] = []

    def settle(self, effect: int) -> None:
        if not self._refused:
            self._refused = self._event.refused  # kept for a call after an interrupt
        self._held.settle(self._event, self, effect)
        if effect == UNAFFECTED:
            self._held.take_refused(self._event)
            _spread(self._held, self._event, self._refused)


_NONE_LEFT: Final = -1  # effect of an offer if all units of the event are claimed


def complete(parts: PurgatoryParts, key: Hashable, value: object, limit: Any, hold: Any) -> int:
    """Complete a key; see `Purgatory.complete`."""
    parts.check_not_drained()
    if limit is None and type(hold) is float and not hold and not parts.held.holds:
        return complete_key(parts, key, value)
    return complete_and_hold(parts, key, value, check_limit(limit), to_ns(hold, "hold"))


def complete_key(parts: PurgatoryParts, key: Hashable, value: object) -> int:
    """Complete a key; return how many operations this completed."""
    if COMPILED and (only := parts.lists.sole_watcher(key)) is not None:
        return 1 if only._op_complete_key(key, value) else 0
    completed = 0
    failure: BaseException | None = None
    for operation in parts.lists.watchers_of(key):
        try:
            if operation._op_complete_key(key, value):
                completed += 1
        except BaseException as error:  # noqa: BLE001  # it is raised below
            failure = _first(failure, error)
    if failure is not None:
        raise failure
    return completed


def _first(earlier: BaseException | None, error: BaseException) -> BaseException:
    """Return the error to raise once the other operations have the event.

    A second error is raised at once: some Ctrl-C must end a long completion.
    """
    if earlier is not None:
        raise error
    return error


def complete_and_hold(
    parts: PurgatoryParts, key: Hashable, value: object, limit: int, hold_ns: int
) -> int:
    """Complete a key and replace its held event; return how many operations this completed.

    `limit`: for how many operations it counts, or UNLIMITED. Also while the purgatory closes.
    """
    held = parts.held
    if limit == UNLIMITED and not hold_ns:
        if held.holds:
            held.drop(key)
        return complete_key(parts, key, value)
    event = HeldEvent(held, key, value, limit)
    if hold_ns:
        held.hold(event, hold_ns)
    else:
        held.drop(key)
    try:
        return _spread(held, event, parts.lists.watchers_of(key))
    finally:
        event.spreading = False


def _spread(held: HeldEvents, event: HeldEvent, operations: list[DelayedOperation]) -> int:
    """Offer an event, and then returned units; return how many operations completed."""
    completed = 0
    failure: BaseException | None = None
    while operations:
        for index in range(len(operations)):
            try:
                effect = _offer(held, event, operations, index)
            except BaseException as error:  # noqa: BLE001  # it is raised below
                failure = _first(failure, error)
                continue
            if effect == _NONE_LEFT:
                break
            if effect >= WON:
                completed += 1
        operations = held.take_refused(event)
    if failure is not None:
        raise failure
    return completed


def _offer(
    held: HeldEvents,
    event: HeldEvent,
    operations: list[DelayedOperation],
    index: int,
    claims: list[Claim] | None = None,
) -> int:
    """Offer an event to one operation; return the effect, or _NONE_LEFT.

    If no unit is left, this operation and all later ones are remembered in case a unit is returned.
    `claims`: of a submission under way, takes a claim that has not completed the operation.
    """
    operation = operations[index]
    claim = _Claim(held, event)
    effect = UNAFFECTED
    try:
        if not held.claim(event, claim, operations, index):
            return _NONE_LEFT
        effect = operation._op_count_key(event.key, event.value, claim)
        if effect == IN_DOUBT:
            return effect
        if claims is not None and effect == PROGRESSED:
            claims.append(claim)
        else:
            held.settle(event, claim, effect)
        if effect == WON:
            finalize(operation, COMPLETED)
    except BaseException:  # an interrupt, or a key that cannot be compared
        if claim.is_left:
            raise
        if claims is not None and operation._op_outcome is None:
            claims.append(claim)
            raise
        is_used = effect != UNAFFECTED or operation._op_outcome is not None
        held.settle(event, claim, WON if is_used else UNAFFECTED)
        if effect == WON:
            finalize(operation, COMPLETED)
        raise
    return effect


def count_held(
    parts: PurgatoryParts,
    operation: DelayedOperation,
    keys: tuple[Hashable, ...],
    claims: list[Claim],
) -> bool:
    """Count held events for an operation; True if this call completed the operation.

    `claims`: takes what brought the operation nearer, for the caller to settle.
    """
    held = parts.held
    completed = False
    for event in held.find(keys):
        if operation._op_outcome is not None:
            break
        if event.spreading:
            _spread(held, event, _before(operation, parts.lists.watchers_of(event.key)))
        if _offer(held, event, [operation], 0, claims) >= WON:
            completed = True
        _spread(held, event, held.take_refused(event))
    return completed


def _before(
    operation: DelayedOperation, operations: list[DelayedOperation]
) -> list[DelayedOperation]:
    """Return the operations before the given one; all, if absent."""
    for index in range(len(operations)):
        if operations[index] is operation:  # users may define __eq__
            return operations[:index]
    return operations


def fail_key(parts: PurgatoryParts, key: Hashable, error: object, first: Exception) -> int:
    """Fail a key for all its watchers; return how many operations this call ended.

    `first`: the error itself, or the first of its class; each further operation gets a new error.
    """
    one = first
    traceback = first.__traceback__

    def fail(operation: DelayedOperation) -> bool:
        nonlocal one
        # Another operation's waiting thread may have raised it.
        one.__traceback__ = traceback
        ended = operation._op_fail_key(key, one)
        if ended:
            one = _another(error, first)
        return ended

    return len(_each(parts.lists.watchers_of(key), fail))


def _another(error: object, first: Exception) -> Exception:
    try:
        return cast("Exception", exception_of(error, Exception))
    except Exception:  # noqa: BLE001
        return first


def check_key(parts: PurgatoryParts, key: Hashable) -> int:
    """Call `try_complete` of all watchers of a key; return how many this completed."""
    return len(_each(parts.lists.watchers_of(key), request_check))


def cancel_for_key(parts: PurgatoryParts, key: Hashable) -> list[DelayedOperation]:
    """Cancel all watchers of a key; return the operations cancelled here."""
    return _each(parts.lists.watchers_of(key), partial(finish, outcome=CANCELLED))


def _each(
    operations: list[DelayedOperation], act: Callable[[DelayedOperation], bool]
) -> list[DelayedOperation]:
    """Call `act` with each operation; return those for which it returned True."""
    found: list[DelayedOperation] = []
    failure: BaseException | None = None
    for operation in operations:
        try:
            if act(operation):
                found.append(operation)
        except BaseException as error:  # noqa: BLE001  # it is raised below
            failure = _first(failure, error)
    if failure is not None:
        raise failure
    return found


def do_posted(parts: PurgatoryParts, command: KeyCommand) -> None:
    """Do what was posted to the loop, also while the purgatory closes."""
    if isinstance(command, CompleteKey):
        complete_and_hold(parts, command.key, command.value, command.limit, command.hold_ns)
    elif isinstance(command, FailKey):
        fail_key(parts, command.key, command.error, command.first)
    else:
        cancel_for_key(parts, command.key)
