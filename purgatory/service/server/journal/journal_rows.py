"""Makes the journal's rows, of a committed transaction or from the store.

Used by the store thread, and before it by the thread that starts the server.
"""

from typing import Any

from purgatory.service.server.journal.journal_sink import (
    EventValues,
    ExtensionValues,
    OperationValues,
    OutcomeValues,
)
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.store.rows import (
    JournalOperation,
    JournalOutcome,
    StoredOperation,
    StoredOutcome,
)


def operation_rows(transaction: Transaction) -> list[OperationValues]:
    """Make the rows of the operations that were submitted."""
    rows: list[OperationValues] = []
    for operation in transaction.submitted:
        row = (
            operation.number,
            operation.op_id,
            operation.kind,
            operation.submitted_ms,
            operation.timeout_ms,
            operation.keys,
            operation.need or 1,  # of a job: a trace has no word for it
        )
        rows.append(row)
    return rows


def outcome_rows(transaction: Transaction) -> list[OutcomeValues]:
    """Make the rows of the operations that ended."""
    rows: list[OutcomeValues] = []
    for operation, record in transaction.outcomes:
        at_ms = record.at_ms(operation.op_deadline_ms)
        row = (
            record.seq,
            operation.op_id,
            operation.kind,
            record.outcome,
            at_ms,
            operation.by_key,
            operation.submitted_ms,
            operation.op_deadline_ms,
            at_ms - operation.submitted_ms,
            record.ended_ms - at_ms,
        )
        rows.append(row)
    return rows


def event_rows(transaction: Transaction) -> list[EventValues]:
    """Make the rows of the events that had an effect."""
    return [event_row(row) for row in _in_rows(transaction.changes.queued_events, 5)]


def event_row(row: tuple[Any, ...]) -> EventValues:
    """Make the row of an event of its values in the store."""
    number, key, at_ms, hold_ms, failed = row
    return number, key, at_ms, hold_ms, bool(failed)


def extension_rows(transaction: Transaction) -> list[ExtensionValues]:
    """Make the rows of extensions."""
    return _in_rows(transaction.changes.queued_extensions, 4)


def _in_rows(values: list[Any], size: int) -> list[Any]:
    """Return a flat list of values as tuples of `size`."""
    if not values:  # mostly
        return []
    iterator = iter(values)
    return list(zip(*[iterator] * size, strict=True))


def stored_operation_row(row: StoredOperation) -> JournalOperation:
    """Make the row of an operation that the store has, with its first deadline."""
    return JournalOperation(
        row.number,
        row.op_id,
        row.kind,
        row.submitted_ms,
        row.deadline_ms - row.submitted_ms,
        row.keys,
        row.need or 1,
    )


def stored_outcome_row(outcome: StoredOutcome, row: StoredOperation) -> JournalOutcome:
    """Make the row of an outcome that the store has, of the operation `row`."""
    return JournalOutcome(
        outcome.seq,
        row.op_id,
        row.kind,
        outcome.outcome,
        outcome.at_ms,
        outcome.by_key,
        row.submitted_ms,
        row.deadline_ms,
        outcome.at_ms - row.submitted_ms,
        outcome.lateness_ms,
    )
