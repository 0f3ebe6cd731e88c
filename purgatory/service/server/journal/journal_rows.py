"""The journal's rows, of a committed transaction or from the store.

Store thread, or starting thread.
"""

from typing import Any

from purgatory.service.server.journal.journal_sink import JournalRow
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.store.rows import (
    QUEUED_EVENT,
    QUEUED_EXTENSION,
    QueuedJob,
    StoredOperation,
    StoredOutcome,
)
from purgatory.trace.tables import Operation, OutcomeRow


def committed_rows(transaction: Transaction) -> tuple[list[JournalRow], ...]:
    """Make the rows of each table, in the order of `JournalSink.write`."""
    changes = transaction.changes
    return (
        operation_rows(transaction),
        outcome_rows(transaction),
        [event_row(row) for row in _in_rows(changes.queued_events, QUEUED_EVENT)],
        _in_rows(changes.queued_extensions, QUEUED_EXTENSION),
        [job_row(queued) for queued in changes.queued_jobs],
    )


def operation_rows(transaction: Transaction) -> list[JournalRow]:
    """Make the rows of submitted operations, without jobs."""
    rows: list[JournalRow] = []
    for operation in transaction.submitted:
        if operation.job is not None:
            continue
        row = (
            operation.number,
            operation.op_id,
            operation.kind,
            operation.submitted_ms,
            operation.timeout_ms,
            operation.keys,
            operation.need,
        )
        rows.append(row)
    return rows


def outcome_rows(transaction: Transaction) -> list[JournalRow]:
    """Make the rows of ended operations, without jobs."""
    rows: list[JournalRow] = []
    for operation, record, at_ms, _ in transaction.outcomes:
        if record.job is not None:
            continue
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


def event_row(row: tuple[Any, ...]) -> JournalRow:
    """Make the row of a stored event."""
    number, key, at_ms, hold_ms, failed = row
    return number, key, at_ms, hold_ms, bool(failed)


def job_row(queued: QueuedJob) -> JournalRow:
    """Make the row of a queued job."""
    *moved, due_ms, began_ms, ended_ms, attempts, worker, error = queued
    queue_ms = run_ms = None
    if began_ms:
        queue_ms, run_ms = began_ms - due_ms, ended_ms - began_ms
    # `moved`: the number, and a `JobRow` up to `submitted_ms`.
    times = (due_ms, began_ms or None, ended_ms, attempts, queue_ms, run_ms)
    return *moved, *times, worker, error


def _in_rows(values: list[Any], size: int) -> list[Any]:
    if not values:  # mostly
        return []
    iterator = iter(values)
    return list(zip(*[iterator] * size, strict=True))


def stored_operation_row(row: StoredOperation) -> JournalRow:
    """Make the row of a stored operation, with its first deadline."""
    operation = Operation(
        op_id=row.op_id,
        kind=row.kind,
        submitted_ms=row.submitted_ms,
        timeout_ms=row.deadline_ms - row.submitted_ms,
        keys=row.keys,
        need=row.need,
    )
    return row.number, *operation


def stored_outcome_row(outcome: StoredOutcome, row: StoredOperation) -> JournalRow:
    """Make the row of a stored outcome."""
    ended = OutcomeRow(
        op_id=row.op_id,
        kind=row.kind,
        outcome=outcome.outcome,
        at_ms=outcome.at_ms,
        by_key=outcome.by_key,
        submitted_ms=row.submitted_ms,
        deadline_ms=row.deadline_ms,
        waited_ms=outcome.at_ms - row.submitted_ms,
        lateness_ms=outcome.lateness_ms,
    )
    return outcome.seq, *ended
