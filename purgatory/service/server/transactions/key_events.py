"""KeyEvents: the completions and failures of keys in one transaction, and what is held for keys.

Each has an effect on operations, may be held, and is written for the journal if it has changed
anything. Used by the store thread alone.

A trace, and so the journal, cannot say that an event left operations out. So one with a limit is
written for the journal only if it reached every operation that waited, as an event without a limit
does; while it is held, it is written once more when it reaches an operation.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from purgatory.core.completion import complete_key
from purgatory.core.operations.operation_state import tell_key
from purgatory.service.encoding import encode
from purgatory.service.protocol import Completion, KeyFailure
from purgatory.service.server.memory import value_bytes
from purgatory.service.server.records.operation import EventContext, PendingOperation
from purgatory.service.store.changes import Changes
from purgatory.service.store.rows import UNLIMITED, StoredEvent

if TYPE_CHECKING:
    from purgatory.service.server.state import ServerState

# How many held events one transaction releases at most: it should not keep requests waiting.
MAX_RELEASED_PER_TRANSACTION = 5000


class KeyEvents:
    """The key events of one transaction, which writes `changes`; all at the state's stamp."""

    __slots__ = ("_changes", "_state", "held_before", "progressed")

    def __init__(self, state: "ServerState", changes: Changes) -> None:
        self._state = state
        self._changes = changes
        self.held_before: dict[str, StoredEvent | None] = {}  # by key, of those that have changed
        self.progressed: list[tuple[PendingOperation, str]] = []  # a key of several has counted

    def complete_all(self, completions: list[Completion]) -> list[int]:
        """Complete keys; returns for each how many operations that completed."""
        return [self.complete(completion) for completion in completions]

    def fail_all(self, failures: list[KeyFailure]) -> list[int]:
        """Fail keys; returns for each how many operations that ended."""
        return [self.fail(failure) for failure in failures]

    def complete(self, completion: Completion) -> int:
        """Complete a key, and replace what is held for it; how many operations that completed."""
        state = self._state
        key = completion.key
        state.stamp.open_for(key)
        if completion.limit is not None or completion.hold_ms or state.held.by_key:
            return self._complete_and_hold(completion)
        now_ms = state.stamp.now_ms
        context = EventContext(bytes(completion.value), now_ms, self.progressed, UNLIMITED)
        count = complete_key(state.parts, key, context)
        if context.reached:
            self._journal(key, 0)
        return count

    def fail(self, failure: KeyFailure) -> int:
        """Fail a key; how many operations that ended. What is held for the key stays."""
        state = self._state
        error = encode((failure.error_type, failure.message))
        state.stamp.open_for(failure.key)
        now_ms = state.stamp.now_ms
        context = EventContext(error, now_ms, self.progressed, UNLIMITED, failed=True)
        count = complete_key(state.parts, failure.key, context)
        if count:
            self._journal(failure.key, 0, failed=True)
        return count

    def _complete_and_hold(self, completion: Completion) -> int:
        key = completion.key
        limit = UNLIMITED if completion.limit is None else completion.limit
        # What the journal says of it.
        hold_ms = completion.hold_ms if limit == UNLIMITED else 0
        replaced = self._replaced(key, hold_ms)
        now_ms = self._state.stamp.now_ms
        context = EventContext(bytes(completion.value), now_ms, self.progressed, limit)
        count, left_out = self._complete_waiting(key, context)
        event = None
        if completion.hold_ms and context.units:
            until_ms = now_ms + completion.hold_ms
            number = self._state.held.next_number()
            event = StoredEvent(number, now_ms, until_ms, context.units, context.value)
        self._hold(key, event)
        if hold_ms or ((context.reached or replaced) and not left_out):
            self._journal(key, hold_ms)
        return count

    def _replaced(self, key: str, hold_ms: int) -> bool:
        """Whether an event that is held for `hold_ms` replaces one that still counts.

        Of several with one stamp the longest hold counts: another one gets a later stamp.
        """
        stamp = self._state.stamp
        event = self._state.held.in_force(key, stamp.now_ms)
        if event is None:
            return False
        if event.at_ms == stamp.now_ms and event.until_ms >= event.at_ms + hold_ms:
            stamp.begin_next()
        return True

    def _complete_waiting(self, key: str, context: EventContext) -> tuple[int, bool]:
        """Complete a key for what waits; how many that completed, and if it left out any."""
        if context.units == UNLIMITED:
            return complete_key(self._state.parts, key, context), False
        count = 0
        for operation in self._state.watchers_of(key):
            if context.units:
                count += tell_key(operation, key, context)
            elif operation.is_waiting_for(key, context.at_ms):
                return count, True
        return count, False

    def separate_submission(self, keys: Iterable[str]) -> None:
        """Let a submission come later than the events before it, as in a trace it would not.

        Not if the event was a held one, which has units left for it: each unit that is used is
        written as an event, and there may be many.
        """
        stamp = self._state.stamp
        for key in keys:
            if stamp.has_event(key) and (stamp.has_failure(key) or not self._has_units(key)):
                stamp.begin_next()
                return

    def _has_units(self, key: str) -> bool:
        """Whether an event with a limit is held for a key."""
        event = self._state.held.in_force(key, self._state.stamp.now_ms)
        return event is not None and event.units != UNLIMITED

    def count_held(self, operation: PendingOperation) -> None:
        """Let what is held count for an operation that was just submitted, in the order it came."""
        now_ms = self._state.stamp.now_ms
        found = [(self._state.held.in_force(key, now_ms), key) for key in operation.keys]
        for event, key in sorted((event, key) for event, key in found if event is not None):
            context = EventContext(event.value, now_ms, self.progressed, event.units)
            is_completed = tell_key(operation, key, context)
            if context.units != event.units:
                self._hold(key, event._replace(units=context.units) if context.units else None)
                self._journal(key, 0)
            if is_completed:
                return

    def release_held(self, before_ms: int) -> None:
        """Release the events that were held until before a time; if there are many, some."""
        for _ in range(MAX_RELEASED_PER_TRANSACTION):
            key = self._state.held.first_ended(before_ms)
            if key is None:
                return
            self._hold(key, None)

    def _hold(self, key: str, event: StoredEvent | None) -> None:
        held = self._state.held
        before = held.by_key.get(key)
        if before is not None or event is not None:
            self.held_before.setdefault(key, before)
            held.set(key, event)

    def _journal(self, key: str, hold_ms: int, *, failed: bool = False) -> None:
        """Write an event for the journal."""
        state = self._state
        now_ms = state.stamp.now_ms
        state.stamp.add_event(key, failed=failed)
        if state.journal_numbers.is_used:
            number = state.journal_numbers.next_event()
            self._changes.queued_events += (number, key, now_ms, hold_ms, int(failed))

    def prepare(self) -> None:
        """Complete the changes: from here on they can be committed."""
        changes = self._changes
        for operation, key in self.progressed:
            assert operation.values is not None
            changes.progress += (operation.number, key, bytearray(operation.values[key]))
        for key in self.held_before:
            event = self._state.held.by_key.get(key)
            if event is None:
                changes.delete_held.append(key)
            else:
                changes.held += (key, *event[:-1], bytearray(event.value))

    def publish(self) -> None:
        """Count the memory that the values of keys take."""
        for operation, key in self.progressed:
            assert operation.values is not None
            self._state.pending_bytes += value_bytes(len(operation.values[key]))

    def roll_back(self) -> None:
        """Take back what has counted, and hold what was held before."""
        for operation, key in self.progressed:
            assert operation.values is not None
            del operation.values[key]
        for key, event in self.held_before.items():
            self._state.held.set(key, event)
