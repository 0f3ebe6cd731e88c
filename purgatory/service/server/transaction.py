"""Transaction: a group of changes that is committed or dropped as one.

Used by the store thread alone.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from purgatory.core.outcome import COMPLETED, EXPIRED, Outcome
from purgatory.service.protocol import NOTHING, Completion, Submission
from purgatory.service.server.clients import ClientRecord, OutcomeRecord
from purgatory.service.server.operation import CompletionContext, PendingOperation
from purgatory.service.server.state import OutcomeReceiver, ServerState
from purgatory.service.server.validation import SubmissionValues
from purgatory.service.store.operation_batches import MAX_BATCH, OperationBatch
from purgatory.service.store.store import Changes

if TYPE_CHECKING:
    from purgatory.service.server.commands import ClientConnected, ClientRequest

# How many operations one transaction expires, roughly: it should not keep requests waiting.
MAX_EXPIRED_PER_TRANSACTION = 5000


class Transaction(OutcomeReceiver):
    """A group of changes, all at the moment `now_ms`.

    Its life: the store loop begins it, which makes it the state's receiver of outcomes; the request
    handler fills it, by `submit`, `complete`, `cancel` and with replies; `prepare` completes
    `changes`, which the store commits; then either `publish` or `roll_back` ends it.

    It owns: the rows to write (`changes`), new operations, keys that counted, outcomes and, with
    them, the clients to notify, the outcomes to delete, and all replies that depend on the commit.
    None of that is visible elsewhere before `publish`; dropping the object drops it.

    Not owned, because a copy would cost too much: the operations in the purgatory's watch lists and
    timer, and their entries in `ServerState.known`. They change at once, and `roll_back` restores
    them. Numbers that were given are not given again.
    """

    __slots__ = (
        "_batch",
        "_state",
        "changes",
        "deleted",
        "now_ms",
        "outcomes",
        "progressed",
        "reads",
        "refusals",
        "repeated_outcomes",
        "replies",
        "submitted",
        "writes",
    )

    def __init__(self, state: ServerState, now_ms: int) -> None:
        self._state = state
        self.now_ms = state.now_ms = max(now_ms, state.now_ms)
        self.changes = Changes()
        self._batch: OperationBatch | None = None  # the last of `changes.operations`
        self.submitted: list[PendingOperation] = []
        self.progressed: list[tuple[PendingOperation, str]] = []  # a key of several has counted
        self.outcomes: list[tuple[PendingOperation, OutcomeRecord]] = []
        self.deleted: list[OutcomeRecord] = []
        # Requests that change something, and their replies; by route.
        self.writes: list[ClientRequest] = []
        self.replies: list[tuple[bytes, Any]] = []
        self.repeated_outcomes: list[tuple[bytes, list[OutcomeRecord]]] = []
        # What is answered whether the commit succeeds or not.
        self.reads: list[ClientRequest | ClientConnected] = []
        self.refusals: list[tuple[bytes, Any]] = []
        state.receiver = self

    @property
    def total(self) -> int:
        """The state's `total`, with what has ended in this transaction."""
        return self._state.total + len(self.outcomes)

    def expire(self) -> None:
        """Expire what is due; if it is much, the next transactions expire the rest."""
        outcomes = self.outcomes
        self._state.expire_due(self.now_ms, lambda: len(outcomes) >= MAX_EXPIRED_PER_TRANSACTION)

    def submit(
        self, client: ClientRecord, submission: Submission, values: SubmissionValues
    ) -> None:
        """Have a valid new operation wait; `values` are the fields of `submission`."""
        op_id, keys, timeout_ms, need, kind, payload = values
        state = self._state
        now_ms = self.now_ms
        state.last_number = number = state.last_number + 1
        operation = PendingOperation(
            number,
            client,
            op_id,
            sys.intern(kind) if kind else "",
            now_ms,
            now_ms + timeout_ms,
            need,
            len(payload) != 1 or bytes(payload) != NOTHING,
            state.clock.now_ms,
        )
        state.watch(operation, keys)
        client.count += 1
        self.submitted.append(operation)
        batch = self._batch
        if batch is None or batch.client != client.name or len(batch.operations) >= MAX_BATCH:
            self._batch = batch = OperationBatch(number, client.name, now_ms, [])
            self.changes.operations.append(batch)
        batch.operations.append(submission)

    def complete(self, completions: Iterable[Completion]) -> list[int]:
        """Complete keys; returns how many operations each completed."""
        counts = []
        for completion in completions:
            context = CompletionContext(bytes(completion.value), self.now_ms, self.progressed)
            counts.append(self._state.purgatory.complete(completion.key, context))
        return counts

    def cancel(self, op_ids: Iterable[str]) -> list[bool]:
        """Cancel operations; returns for each whether this cancelled it."""
        return [self._cancel(op_id) for op_id in op_ids]

    def _cancel(self, op_id: str) -> bool:
        operation = self._state.known.get(op_id)
        if not isinstance(operation, PendingOperation) or self.now_ms > operation.due_ms:
            return False
        return operation.cancel()

    def delete_outcomes(self, *, everything: bool = False) -> None:
        """Delete the outcomes that have been kept long enough; see `OutcomeRetention`.

        Their operation ids can be used again from the next transaction on.
        """
        self.deleted = self._state.retention.select_deletable(self.now_ms, everything=everything)
        self.changes.delete_operations = [record.number for record in self.deleted]
        self.changes.delete_outcomes = [record.seq for record in self.deleted]

    def add_outcome(self, operation: PendingOperation, outcome: Outcome) -> None:
        """Note that an operation has ended; called by the state for each, once."""
        state = self._state
        state.last_seq = seq = state.last_seq + 1
        number = operation.number
        op_id = operation.op_id
        name = _name(outcome)
        now_ms = self.now_ms
        record = OutcomeRecord(seq, number, op_id, operation.client, name, now_ms)
        self.outcomes.append((operation, record))
        state.known[op_id] = record
        at_ms = record.at_ms(operation.due_ms)
        result = operation.result()
        self.changes.outcomes += (
            seq,
            number,
            name,
            at_ms,
            now_ms - at_ms,
            operation.by_key or "",
            "" if result is None else bytearray(result),
        )

    def prepare(self) -> None:
        """Complete `changes`: from here on it can be committed."""
        rows = self.changes.progress
        for operation, key in self.progressed:
            assert operation.values is not None
            rows += (operation.number, key, bytearray(operation.values[key]))

    def publish(self) -> None:
        """Make it visible: `changes` are on disk. Ends the transaction."""
        self._state.receiver = None
        retention = self._state.retention
        for _, record in self.outcomes:
            retention.add(record)
        retention.delete(self.deleted)

    def roll_back(self) -> None:
        """Restore watch lists, timer and known ids. Ends the transaction, after a failed commit."""
        state = self._state
        state.receiver = None  # the ends below are none
        for operation, key in self.progressed:
            assert operation.values is not None
            del operation.values[key]
        new = {operation.number for operation in self.submitted}
        for operation, _ in self.outcomes:
            if operation.number not in new:
                state.watch(operation.copy_pending(state.clock.now_ms), operation.keys)
        for operation in self.submitted:
            operation.cancel()
            operation.client.count -= 1
            del state.known[operation.op_id]


def _name(outcome: Outcome) -> str:
    """Return the member's value; faster than `Outcome.value`, which is a call."""
    if outcome is COMPLETED:
        return "completed"
    return "expired" if outcome is EXPIRED else "cancelled"
