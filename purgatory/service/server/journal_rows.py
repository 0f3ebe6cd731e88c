"""Makes the journal's rows, of a committed transaction or from the store.

Used by the store thread, and before it by the thread that starts the server.
"""

from purgatory.service.server.journal_sink import OperationValues, OutcomeValues
from purgatory.service.server.transaction import Transaction
from purgatory.service.store.operation_batches import StoredOperation
from purgatory.service.store.store import JournalOperation, JournalOutcome, StoredOutcome


def operation_rows(transaction: Transaction) -> list[OperationValues]:
    """Make the rows of the operations that were submitted."""
    rows: list[OperationValues] = []
    for operation in transaction.submitted:
        timeout_ms = operation.due_ms - operation.submitted_ms
        row = (
            operation.number,
            operation.op_id,
            operation.kind,
            operation.submitted_ms,
            timeout_ms,
            operation.keys,
            operation.need,
        )
        rows.append(row)
    return rows


def outcome_rows(transaction: Transaction) -> list[OutcomeValues]:
    """Make the rows of the operations that ended."""
    rows: list[OutcomeValues] = []
    for operation, record in transaction.outcomes:
        at_ms = record.at_ms(operation.due_ms)
        row = (
            record.seq,
            operation.op_id,
            operation.kind,
            record.outcome,
            at_ms,
            operation.by_key,
            operation.submitted_ms,
            operation.due_ms,
            at_ms - operation.submitted_ms,
            record.ended_ms - at_ms,
        )
        rows.append(row)
    return rows


def stored_operation_row(row: StoredOperation) -> JournalOperation:
    """Make the row of an operation that the store has."""
    return JournalOperation(
        row.number,
        row.op_id,
        row.kind,
        row.submitted_ms,
        row.deadline_ms - row.submitted_ms,
        row.keys,
        row.need,
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
