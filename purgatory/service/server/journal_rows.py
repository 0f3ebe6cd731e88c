"""Rows for the journal, from a turn that was committed, and from the store what it missed."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from purgatory.service.server.journal_sink import JournalSink, OperationValues, OutcomeValues
from purgatory.service.server.transaction import Transaction
from purgatory.service.store.operation_batches import StoredOperation
from purgatory.service.store.store import JournalPosition, OperationRow, OutcomeRow, Store

_AT_ONCE = 500
_T = TypeVar("_T")


def operation_rows(transaction: Transaction) -> list[OperationValues]:
    """The operations that were submitted."""
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
    """The operations that ended."""
    rows: list[OutcomeValues] = []
    for operation, ended in transaction.ended:
        at_ms = ended.at_ms(operation)
        row = (
            ended.seq,
            operation.op_id,
            operation.kind,
            ended.outcome,
            at_ms,
            operation.by_key,
            operation.submitted_ms,
            operation.due_ms,
            at_ms - operation.submitted_ms,
            ended.ended_ms - at_ms,
        )
        rows.append(row)
    return rows


def replay(store: Store, sink: JournalSink, position: JournalPosition) -> None:
    """Write to a journal what the store has beyond a position."""
    for rows in _some(store.operations(position.operations)):
        sink.write([_operation_row(row) for row in rows], [])
    for outcomes in _some(store.outcomes(position.outcomes)):
        found = store.ended([outcome.seq for outcome in outcomes])
        sink.write(
            [],
            [
                OutcomeRow(
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
                for outcome, row in found
            ],
        )


def _operation_row(row: StoredOperation) -> OperationRow:
    return OperationRow(
        row.number,
        row.op_id,
        row.kind,
        row.submitted_ms,
        row.deadline_ms - row.submitted_ms,
        row.keys,
        row.need,
    )


def _some(rows: Iterable[_T]) -> Iterator[list[_T]]:
    iterator = iter(rows)
    while some := list(islice(iterator, _AT_ONCE)):
        yield some
