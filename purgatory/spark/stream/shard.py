"""One shard of a stream: its operations, and their fate as event time advances.

Rows of open instants wait; once closed, they apply in the order of a trace. An operation expires
when a row for it comes after its deadline, or at the end of a micro-batch, with the same outcome.

For one task within a single micro-batch; independent of Spark.
"""

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, Final

from purgatory.spark.stream.bucket_table import BucketTable, key_hash
from purgatory.spark.stream.shard_state import ShardOperation, ShardState, Watchers
from purgatory.spark.stream.tick_table import Row
from purgatory.trace.tables import OutcomeRow
from purgatory.trace.validation import COMPLETED, EXPIRED, FAILED, INT64_MIN

# Rows are lists: time, code, file, place in the file, and then
#   OPERATION: op_id, kind, timeout_ms, keys, need
#   EXTENSION: op_id, timeout_ms
#   EVENT: key, hold_ms, failed
# Codes are in the order in which rows of one instant apply.
OPERATION: Final = 0
EXTENSION: Final = 1
EVENT: Final = 2
# By code.
TABLES: Final = ("operations", "extensions", "events")

_IN_ORDER: Final = itemgetter(0, 1, 2, 3)


class Shard:
    """Advances the state of a shard by a micro-batch; collects `outcomes` and `late` rows."""

    def __init__(self, state: ShardState) -> None:
        self.outcomes: list[OutcomeRow] = []
        self.late: list[Row] = []
        self._state = state
        self._watchers: BucketTable[Watchers] = state.watchers
        self.taken: list[Row] = []  # not late
        self._open: list[ShardOperation] = []  # whose deadline is new
        self._held: set[str] = set()  # keys with an event held since this micro-batch
        self._submitted: list[ShardOperation] = []  # at this instant; held events may count

    def take(self, rows: Iterable[Row]) -> None:
        """Take rows, open or late."""
        closed_ms = self._state.closed_ms
        for row in rows:
            (self.taken if row[0] > closed_ms else self.late).append(row)

    def advance(self, closed_ms: int) -> None:
        """Close the instants up to `closed_ms`."""
        state = self._state
        rows = [row for row in self.taken if row[0] <= closed_ms]
        for row in self.taken:
            if row[0] > closed_ms:
                state.waiting.add(row)
                state.count_waiting(row[1], 1)
            if row[1] == OPERATION:
                state.note_deadline(row[0] + row[6])
        for row in state.waiting.due(closed_ms):
            state.count_waiting(row[1], -1)
            rows.append(row)
        rows.sort(key=_IN_ORDER)
        self._apply(rows)
        state.closed_ms = closed_ms
        self._expire(closed_ms)
        self._schedule(closed_ms)

    def _apply(self, rows: Iterable[Row]) -> None:
        steps = (self._submit, self._extend, self._happen)
        for row in rows:
            if self._submitted and (row[1] == EVENT or row[0] != self._submitted[0].submitted_ms):
                self._count_held()
            steps[row[1]](row)
        self._count_held()

    def _submit(self, row: Row) -> None:
        submitted_ms, _, _, _, op_id, kind, timeout_ms, keys, need = row
        keys = list(dict.fromkeys(keys))
        operation = ShardOperation(
            self._state.next_number(),
            op_id,
            kind,
            submitted_ms,
            submitted_ms + timeout_ms,
            need,
            keys,
        )
        for key in keys:
            self._watchers.edit(key).setdefault(key, {})[operation.number] = operation
        self._watchers.entries += len(keys)
        self._state.pending += 1
        self._open.append(operation)
        if self._state.holds.entries:
            self._submitted.append(operation)
        if self._state.extensible:
            self._state.ids.edit(op_id).setdefault(op_id, []).append([operation.number, keys[:]])
            self._state.ids.entries += 1

    def _extend(self, row: Row) -> None:
        at_ms, _, _, _, op_id, timeout_ms = row
        for number, keys in list(self._state.ids.get(op_id) or ()):
            operation = self._find(number, keys)
            if at_ms <= operation.deadline_ms:
                operation.deadline_ms = at_ms + timeout_ms
                self._state.note_deadline(operation.deadline_ms)
                for key in operation.keys:
                    self._watchers.edit(key)
                self._open.append(operation)

    def _find(self, number: int, keys: list[str]) -> ShardOperation:
        for key in keys:
            found = (self._watchers.get(key) or {}).get(number)
            if found is not None:
                return found
        raise AssertionError(f"operation {number} has an id, but no key")

    def _happen(self, row: Row) -> None:
        at_ms, _, file, place, key, hold_ms, failed = row
        watchers = self._watchers.get(key)
        if watchers:
            for operation in list(watchers.values()):
                if operation.deadline_ms < at_ms:
                    self._end(operation, EXPIRED, operation.deadline_ms)
                elif failed:
                    self._end(operation, FAILED, at_ms)
                else:
                    self._complete(operation, key, at_ms)
        if not failed and (hold_ms or self._state.holds.entries):
            self._hold(key, at_ms, at_ms + hold_ms, file, place)

    def _complete(self, operation: ShardOperation, key: str, at_ms: int) -> None:
        if operation.need == 1:
            self._end(operation, COMPLETED, at_ms, key)
            return
        self._unwatch(operation, key)
        operation.need -= 1
        operation.keys.remove(key)
        for other in operation.keys:
            self._watchers.edit(other)

    def _end(
        self, operation: ShardOperation, outcome: str, at_ms: int, key: str | None = None
    ) -> None:
        for watched in operation.keys:
            self._unwatch(operation, watched)
        operation.need = 0
        self._state.pending -= 1
        if self._state.extensible:
            self._forget_id(operation)
        start_ms, deadline_ms = operation.submitted_ms, operation.deadline_ms
        times = (start_ms, deadline_ms, at_ms - start_ms, 0)
        self.outcomes.append(
            OutcomeRow(operation.op_id, operation.kind, outcome, at_ms, key, *times)
        )

    def _unwatch(self, operation: ShardOperation, key: str) -> None:
        bucket = self._watchers.edit(key)
        watchers = bucket[key]
        del watchers[operation.number]
        if not watchers:
            del bucket[key]
        self._watchers.entries -= 1

    def _forget_id(self, operation: ShardOperation) -> None:
        bucket = self._state.ids.edit(operation.op_id)
        rest = [row for row in bucket[operation.op_id] if row[0] != operation.number]
        if rest:
            bucket[operation.op_id] = rest
        else:
            del bucket[operation.op_id]
        self._state.ids.entries -= 1

    def _hold(self, key: str, at_ms: int, until_ms: int, file: str, place: int) -> None:
        """Note the last completion of a key; within an instant, the longest hold."""
        holds = self._state.holds
        held = holds.get(key)
        if held is not None and held[0] == at_ms and held[1] >= until_ms:
            return
        if until_ms > at_ms:
            holds.edit(key)[key] = [at_ms, until_ms, file, place]
            holds.entries += held is None
            self._held.add(key)
        elif held is not None:
            del holds.edit(key)[key]
            holds.entries -= 1

    def _count_held(self) -> None:
        for operation in self._submitted:
            at_ms = operation.submitted_ms
            held = [(self._state.holds.get(key), key) for key in operation.keys]
            in_order = sorted(
                (hold[0], hold[2], hold[3], key)
                for hold, key in held
                if hold is not None and hold[0] < at_ms <= hold[1]
            )
            for _, _, _, key in in_order:
                if operation.need:
                    self._complete(operation, key, at_ms)
        self._submitted.clear()

    def _expire(self, closed_ms: int) -> None:
        hashes = {number for _, number in self._state.deadlines.due(closed_ms)}
        for slot in {self._watchers.slot(number) for number in hashes}:
            for watchers in self._watchers.bucket_copy(slot).values():
                for operation in list(watchers.values()):
                    if operation.need and operation.deadline_ms <= closed_ms:
                        self._end(operation, EXPIRED, operation.deadline_ms)
        holds = self._state.holds
        if holds.entries:
            for slot in {holds.slot(number) for number in hashes}:
                for key in holds.bucket_copy(slot):
                    self._drop_hold(key, closed_ms)

    def _schedule(self, closed_ms: int) -> None:
        for operation in self._open:
            if not operation.need:
                continue
            if operation.deadline_ms <= closed_ms:
                self._end(operation, EXPIRED, operation.deadline_ms)
            else:
                for key in operation.keys:
                    self._state.deadlines.add([operation.deadline_ms, key_hash(key)])
        for key in self._held:
            hold = self._drop_hold(key, closed_ms)
            if hold is not None:
                self._state.deadlines.add([hold[1], key_hash(key)])

    def _drop_hold(self, key: str, closed_ms: int) -> list[Any] | None:
        """Drop a hold that has ended by `closed_ms`; else return it."""
        holds = self._state.holds
        hold = holds.get(key)
        if hold is None or hold[1] > closed_ms:
            return hold
        del holds.edit(key)[key]
        holds.entries -= 1
        return None


def compute_closed_ms(
    newest_ms: Mapping[str, int], sources: Iterable[str], watermark_ms: int, closed_ms: int
) -> int:
    """Return the last closed instant: before the newest time of all sources.

    `closed_ms`, the last so far, stays while a source has shown no row.
    """
    if any(source not in newest_ms for source in sources):
        return closed_ms
    reached_ms = min(newest_ms[source] for source in sources) - watermark_ms - 1
    return max(closed_ms, reached_ms, INT64_MIN)
