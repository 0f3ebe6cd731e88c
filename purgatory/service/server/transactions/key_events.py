"""KeyEvents: the completions and failures of keys in a transaction, and held events.

Each ends operations, may be held, and is journaled if it changes anything. A trace, and so the
journal, cannot show that an event skipped operations. So an event with a limit is journaled only if
it reached every waiting operation; a held event is journaled again whenever it reaches an
operation. Store thread alone.
"""

from collections.abc import Iterable
from typing import Final

from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import tell_key
from purgatory.service.encoding import encode
from purgatory.service.job_messages import CANCELLED_BY_KEY
from purgatory.service.protocol import Completion, KeyFailure
from purgatory.service.server.jobs.job_changes import JobChanges
from purgatory.service.server.memory import value_bytes
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.operation import EventContext, PendingOperation
from purgatory.service.server.records.spreads import Spread
from purgatory.service.server.state import ServerState
from purgatory.service.store.changes import Changes
from purgatory.service.store.rows import UNLIMITED, StoredEvent

# Held events that a transaction releases, at most.
MAX_RELEASED_PER_TRANSACTION = 5000
# So many looks at ended operations take as long as an end.
_LOOKS: Final = 16
# Looks and changes, at most, to find whether a spread is for any operation.
_MOST_LOOKS: Final = 10_000
_MOST_SETTLED: Final = 500
# Writing so many bytes takes as long as to end an operation.
_BYTES_LIKE_ONE: Final = 1 << 11


class KeyEvents:
    """Key events at the state's stamp, written to `changes`."""

    def __init__(self, state: "ServerState", changes: Changes, jobs: JobChanges) -> None:
        self._state = state
        self._jobs = jobs
        self._changes = changes
        self.held_before: dict[str, StoredEvent | None] = {}  # by key, the changed ones
        self.progressed: list[tuple[PendingOperation, str]] = []  # of several keys, with the key
        self._place = 0
        self._present: Spread | None = None  # begun by the present event
        self.begun: list[Spread] = []
        self.finished: list[Spread] = []
        self.spreads_before: dict[int, tuple[Spread, int]] = {}  # by number, with counts
        self.settled: list[tuple[PendingOperation, Spread]] = []
        self._taken: list[tuple[OutcomeRecord, Spread]] = []  # due jobs

    def complete(self, completion: Completion, place: int = 0) -> int:
        """Complete a key, and replace its held event; return how many operations ended.

        Operations of a spread do not count. `place`: in the request.
        """
        state = self._state
        self._place, self._present = place, None
        key = completion.key
        state.stamp.open_for(key)
        if completion.limit is not None or completion.hold_ms or state.held.by_key:
            return self._complete_and_hold(completion)
        now_ms = state.stamp.now_ms
        context = EventContext(bytes(completion.value), now_ms, self.progressed, UNLIMITED)
        count = self._reach(key, context)
        if context.reached:
            self._journal(key, 0)
        return count + self._cancel_due(key, context)

    def _cancel_due(self, key: str, context: EventContext) -> int:
        """Cancel due jobs; return how many. Without a limit, many are cancelled by a spread."""
        state = self._state
        if not context.units or key not in state.jobs.by_key:
            return 0
        due = self._jobs.due_by_key(key)
        if context.units != UNLIMITED or not state.is_for_many(len(due), b""):
            return self._jobs.cancel_due(due, key, context.units)
        spread = self._present
        if spread is None:
            spread = self._new_spread(key, context, [], last=state.last_number)
            self._add_spread(spread)
        state.pending_bytes += spread.set_jobs(due)
        return 0

    def fail(self, failure: KeyFailure, place: int = 0) -> int:
        """Fail a key; see `complete`. A held event stays."""
        state = self._state
        self._place, self._present = place, None
        error = encode((failure.error_type, failure.message))
        state.stamp.open_for(failure.key)
        now_ms = state.stamp.now_ms
        context = EventContext(error, now_ms, self.progressed, UNLIMITED, failed=True)
        count = self._reach(failure.key, context)
        if context.reached:
            self._journal(failure.key, 0, failed=True)
        return count + self._cancel_due(failure.key, context)

    def _complete_and_hold(self, completion: Completion) -> int:
        key = completion.key
        limit = UNLIMITED if completion.limit is None else completion.limit
        # For the journal.
        hold_ms = completion.hold_ms if limit == UNLIMITED else 0
        replaced = self._replaced(key, hold_ms)
        now_ms = self._state.stamp.now_ms
        context = EventContext(bytes(completion.value), now_ms, self.progressed, limit)
        count, left_out = self._complete_waiting(key, context)
        cancelled = self._cancel_due(key, context)
        if context.units != UNLIMITED:
            context.units -= cancelled
        event = None
        if completion.hold_ms and context.units:
            until_ms = now_ms + completion.hold_ms
            number = self._state.held.next_number()
            event = StoredEvent(number, now_ms, until_ms, context.units, context.value)
        self._hold(key, event)
        if hold_ms or ((context.reached or replaced) and not left_out):
            self._journal(key, hold_ms)
        return count + cancelled

    def _replaced(self, key: str, hold_ms: int) -> bool:
        """Whether an event held for `hold_ms` replaces another that counts.

        Of one stamp the longest hold counts: an event with a shorter hold gets a later stamp.
        """
        stamp = self._state.stamp
        event = self._state.held.in_force(key, stamp.now_ms)
        if event is None:
            return False
        if event.at_ms == stamp.now_ms and event.until_ms >= event.at_ms + hold_ms:
            stamp.begin_next()
        return True

    def _complete_waiting(self, key: str, context: EventContext) -> tuple[int, bool]:
        """Complete a key for waiting operations; return how many ended, and if some were skipped.

        With a limit, the longest waiting come first, with due jobs.
        """
        if context.units == UNLIMITED:
            return self._reach(key, context), False
        chosen: list[PendingOperation] = []
        due = self._jobs.due_by_key(key)
        cancelled = 0
        is_any_left = False
        last = self._state.spreads.last_of(key)
        for operation in self._state.watchers_of(key):
            if operation.number <= last:
                continue  # an unfinished spread reaches it
            self.settle(operation)
            if not operation.done() and operation.is_waiting_for(key, context.at_ms):
                if due:
                    taken = len(chosen)
                    cancelled += self._cancel_before(operation.number, key, due, context, taken)
                is_any_left = len(chosen) == context.units
                if is_any_left:
                    break
                chosen.append(operation)
        if self._state.is_for_many(len(chosen), context.value):
            context.units -= len(chosen)
            self._begin_spread(key, context, list(chosen), last=chosen[-1].number)
            return cancelled, is_any_left
        count = cancelled
        for watcher in chosen:
            count += tell_key(watcher, key, context)
        return count, is_any_left

    def _cancel_before(
        self, number: int, key: str, due: list[OutcomeRecord], context: EventContext, taken: int
    ) -> int:
        """Cancel jobs of `due` that wait for longer than operation `number`; return how many.

        `taken`: used units.
        """
        count = 0
        while due and due[0].number < number and context.units > taken:
            if self._jobs.cancel(due.pop(0), CANCELLED_BY_KEY + key):
                context.units -= 1
                count += 1
        return count

    def _reach(self, key: str, context: EventContext) -> int:
        """Count an event for all watchers; return how many ended so far."""
        state = self._state
        lists = state.parts.lists
        if not state.spreads.in_order and (only := lists.sole_watcher(key)) is not None:  # mostly
            return tell_key(only, key, context)
        watchers = lists.watchers_of(key)
        if state.is_for_many(len(watchers), context.value):
            self._begin_spread(key, context, watchers, last=state.last_number)
            return 0
        count = 0
        for operation in watchers:
            if state.spreads.in_order:
                assert isinstance(operation, PendingOperation)
                self.settle(operation)
                if operation.done():
                    continue
            count += tell_key(operation, key, context)
        return count

    def _begin_spread(
        self, key: str, context: EventContext, watchers: list[DelayedOperation], last: int
    ) -> None:
        spread = self._new_spread(key, context, watchers, last)
        context.reached = self._is_for_any(spread)
        if context.reached or key in self._state.spreads.by_key:
            self._add_spread(spread)

    def _new_spread(
        self, key: str, context: EventContext, watchers: list[DelayedOperation], last: int
    ) -> Spread:
        state = self._state
        number, value, at_ms = state.last_spread + 1, context.value, context.at_ms
        spread = Spread(number, key, value, at_ms, state.last_seq + 1, context.failed)
        spread.place = self._place
        spread.reach(watchers, last)
        return spread

    def _add_spread(self, spread: Spread) -> None:
        self._state.last_spread = spread.number
        self._state.add_spread(spread)
        self._present = spread
        self.begun.append(spread)
        self.spreads_before[spread.number] = (spread, 0)

    def _is_for_any(self, spread: Spread) -> bool:
        """Whether an unadded spread is for any operation; of very many it is."""
        last = self._state.spreads.last_of(spread.key)
        settled = 0
        for operation in spread.waiting[:_MOST_LOOKS]:
            assert isinstance(operation, PendingOperation)
            if operation.number <= last or not spread.is_for(operation):
                continue
            settled += 1
            if settled > _MOST_SETTLED:
                return True
            self.settle(operation)
            if spread.is_for(operation):
                return True
        return len(spread.waiting) > _MOST_LOOKS

    def spread(self, most: int) -> None:
        """End up to `most` operations and jobs of spreads."""
        left = most
        looks = _LOOKS * most
        for spread in self._state.spreads.in_order:
            while spread.waiting and left > 0 and looks > 0:
                operation = spread.waiting.pop()
                assert isinstance(operation, PendingOperation)
                looks -= 1
                if spread.is_for(operation):
                    self.settle(operation)
                    left -= 1
                    if operation.need > 1:  # with its own value
                        left -= len(spread.value) // _BYTES_LIKE_ONE
            while spread.jobs and left > 0:
                left -= 1
                self._cancel_next(spread)
            if spread.waiting or spread.jobs:
                return
            self.spreads_before.setdefault(spread.number, (spread, spread.count))
            self.finished.append(spread)

    def _cancel_next(self, spread: Spread) -> None:
        """Cancel the next due job of a spread, unless its handler has begun meanwhile."""
        self.spreads_before.setdefault(spread.number, (spread, spread.count))
        record = spread.jobs.popitem()[1]
        self._taken.append((record, spread))
        if self._jobs.is_cancellable(record):
            spread.count += self._jobs.cancel(record, CANCELLED_BY_KEY + spread.key)

    def settle(self, operation: PendingOperation) -> None:
        """Count unfinished events for an operation, before another change."""
        for spread in self._state.spreads.watched_by(operation):
            if spread.is_for(operation):
                self.spreads_before.setdefault(spread.number, (spread, spread.count))
                self.settled.append((operation, spread))
                spread.progressed = self.progressed
                if tell_key(operation, spread.key, spread):
                    spread.count += 1

    def separate_submission(self, keys: Iterable[str]) -> None:
        """Give a submission a later stamp than earlier events of its keys.

        Not after a held event with units left: each used unit is journaled.
        """
        stamp = self._state.stamp
        for key in keys:
            if key in stamp.keys and (key in stamp.failed_keys or not self._has_units(key)):
                stamp.begin_next()
                return

    def _has_units(self, key: str) -> bool:
        event = self._state.held.in_force(key, self._state.stamp.now_ms)
        return event is not None and event.units != UNLIMITED

    def count_held(self, operation: PendingOperation) -> None:
        """Count held events for a new operation, in order."""
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
        """Release some events held until before a time."""
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
        state = self._state
        now_ms = state.stamp.now_ms
        state.stamp.add_event(key, failed=failed)
        if state.journal_numbers.is_used:
            number = state.journal_numbers.next_event()
            self._changes.queued_events += (number, key, now_ms, hold_ms, int(failed))

    def prepare(self) -> None:
        """Complete the changes."""
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
        last_seq = max(1, self._state.last_seq)  # 0 means unfinished
        for spread, _ in self.spreads_before.values():
            changes.spreads += spread.row(last_seq if spread in self.finished else 0)

    def publish(self) -> None:
        """Count the memory of values, and forget ended spreads."""
        state = self._state
        for spread in self.begun:
            spread.request.is_new = False
        for spread in self.finished:
            state.spreads.remove(spread)
            state.pending_bytes -= spread.bytes
            request = spread.request
            request.left -= 1
            if not request.left:
                state.spread_requests.pop((request.session, request.seq), None)
        for operation, key in self.progressed:
            assert operation.values is not None
            self._state.pending_bytes += value_bytes(len(operation.values[key]))

    def roll_back(self) -> None:
        """Undo progress, and restore held events and counts."""
        for operation, key in self.progressed:
            assert operation.values is not None
            del operation.values[key]
        for key, event in self.held_before.items():
            self._state.held.set(key, event)
        for spread, count in self.spreads_before.values():
            spread.count = count

    def reach_again(self) -> None:
        """Offer events to operations and jobs that wait again."""
        state = self._state
        for record, spread in reversed(self._taken):
            spread.jobs[record.seq] = record
        for operation, spread in self.settled:
            entry = state.known.get(operation.op_id)
            if isinstance(entry, PendingOperation):
                spread.waiting.append(entry)
        for spread in self.begun:
            state.spreads.remove(spread)
            state.pending_bytes -= spread.bytes
            state.spread_requests.pop((spread.request.session, spread.request.seq), None)
