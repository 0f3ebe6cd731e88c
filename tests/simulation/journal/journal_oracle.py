"""JournalOracle: what a journal must have, checked against what programs were told.

Each operation that was acknowledged is in it once, and so is each end, as it was told; and each
event and extension that changed something.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from purgatory.testing.world.world import NS_PER_MS
from tests.simulation.journal.journal_directory import JournalDirectory
from tests.simulation.records import EventRecord, OperationRecord
from tests.testing.journal_rows import JournalOperation, JournalOutcome


class JournalOracle:
    """Checks a journal that has all rows of a server. `report`: told of what is wrong."""

    def __init__(self, directory: JournalDirectory, report: Callable[[str], None]) -> None:
        self._report = report
        rows = directory.rows
        self._operations: dict[str, Any] = self._by_id(
            map(JournalOperation._make, rows["operations"])
        )
        self._outcomes: dict[str, Any] = self._by_id(map(JournalOutcome._make, rows["outcomes"]))
        self._events = Counter(key for _, key, *_ in rows["events"])
        self._extensions = Counter(op_id for _, op_id, *_ in rows["extensions"])

    def _by_id(self, rows: Iterable[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for row in rows:
            if row.op_id in found:
                self._report(f"the journal has {row}, and {found[row.op_id]}")
            found[row.op_id] = row
        return found

    def check(
        self, operations: Collection[OperationRecord], events: Collection[EventRecord]
    ) -> None:
        """Check it against all that programs have asked for."""
        for row in self._outcomes.values():
            if row.op_id not in self._operations:
                self._report(f"the journal has an end, and no such operation: {row}")
            if row.waited_ms != row.at_ms - row.submitted_ms:
                self._report(f"the journal has times that do not fit: {row}")
        for operation in operations:
            self._check_operation(operation)
            if operation.outcome is not None:
                self._check_outcome(operation, operation.outcome[0])
            self._check_extensions(operation)
        self._check_events(operations, events)

    def _check_operation(self, operation: OperationRecord) -> None:
        row = self._operations.get(operation.op_id)
        if row is None:
            if operation.is_answered or operation.outcome is not None:
                self._report(f"not in the journal: {operation}")
            return
        asked = operation.keys, operation.need, operation.timeout_ns // NS_PER_MS
        if (row.keys, row.need, row.timeout_ms) != asked:
            self._report(f"in the journal as {row}: {operation}")

    def _check_outcome(self, operation: OperationRecord, outcome: str) -> None:
        row = self._outcomes.get(operation.op_id)
        if row is None or row.outcome != outcome:
            self._report(f"has ended in the journal as {row}: {operation}")
        elif outcome == "completed" and row.by_key not in operation.keys:
            self._report(f"was completed in the journal by another key, {row}: {operation}")

    def _check_extensions(self, operation: OperationRecord) -> None:
        true = sum(call.answer is True for call in operation.extensions)
        most = sum(call.answer is not False for call in operation.extensions)
        if not true <= self._extensions[operation.op_id] <= most:
            found = self._extensions[operation.op_id]
            self._report(f"was extended {found} times in the journal: {operation}")

    def _check_events(
        self, operations: Collection[OperationRecord], events: Collection[EventRecord]
    ) -> None:
        """Check how many events of each key there are: those that counted, and no more than all.

        Traces know no limits: a limited event is there only where it is like another one, and a
        held one of these for each moment at which it counts.
        """
        limited = {event.value for event in events if event.limit is not None}
        limited_keys = {event.key for event in events if event.limit is not None}
        sent = Counter(event.key for event in events if not event.refused)
        counted: dict[str, set[Any]] = {key: set() for key in sent}
        for operation in operations:
            for key, value in _values_of(operation):
                if value not in limited:
                    counted[key].add(value)
        for key, most in sent.items():
            found, least = self._events[key], len(counted[key])
            if found < least or (found > most and key not in limited_keys):
                self._report(
                    f"the journal has {found} events of {key}: {least} have counted, of {most}"
                )


def _values_of(operation: OperationRecord) -> Sequence[tuple[str, Any]]:
    """Return the values that completed an operation, with their keys as far as these are known."""
    if operation.outcome is None or operation.outcome[0] != "completed":
        return ()
    result = operation.outcome[1]
    if operation.need > 1:
        return list(result.items())
    return [(operation.keys[0], result)] if len(operation.keys) == 1 else ()
