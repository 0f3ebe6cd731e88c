"""ServerState: what waits at a server and what has ended there; every decision is made here.

Used by the store thread alone, which makes decision and commit one step. What a turn did is kept in
memory at once and written down in the turn; if its commit fails, `roll_back` takes all of it back,
so memory and disk always agree when the turn is over. Nothing is told to anybody before.

The timer's clock is moved by hand, once a turn: everything in a turn happens at one moment.
"""

import sys
from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Raw
from msgspec.structs import astuple
from prometheus_client import CollectorRegistry

from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import COMPLETED, EXPIRED, Outcome
from purgatory.core.start_and_close import Purgatory
from purgatory.service.protocol import (
    NOTHING,
    Completion,
    Known,
    Refusal,
    Submission,
    encode,
)
from purgatory.service.server.deferred_executor import DeferredExecutor
from purgatory.service.server.operation import (
    ClientRecord,
    CompletionContext,
    OutcomeRecord,
    PendingOperation,
)
from purgatory.service.server.transaction import Transaction, TransactionClock
from purgatory.service.server.validation import RequestValidator, Values
from purgatory.service.store.operation_batches import MAX_BATCH, OperationBatch, StoredOperation
from purgatory.service.store.store import JournalPosition, Store
from timingwheel import Timer

# How many operations may expire in a turn, by and large: others are waiting to be served.
MAX_EXPIRED_PER_TRANSACTION = 5000
# How many acknowledged outcomes are deleted in a turn.
MAX_DELETED_PER_TRANSACTION = 5000
# So many of them are kept for a while, for those who ask or submit once more.
RETAINED_OUTCOMES = 10_000
RETAINED_OUTCOMES_MS = 600_000


class ServerState:
    """``validator``: what is taken. ``start_ms``: the moment of the first turn, or before."""

    def __init__(
        self,
        name: str,
        validator: RequestValidator,
        start_ms: int,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.validator = validator
        self.clock = TransactionClock(start_ms)
        self.executor = DeferredExecutor()
        self.timer = Timer(name, clock=self.clock, executor=self.executor)
        self.purgatory = Purgatory(name, timer=self.timer, journal=self, registry=registry)
        self.known: dict[str, PendingOperation | OutcomeRecord] = {}
        self.clients: dict[str, ClientRecord] = {}
        self.unacknowledged = 0
        self._number = 0  # the last one given to an operation
        self._seq = 0  # and to an outcome
        self._journal_position = JournalPosition(sys.maxsize, sys.maxsize)  # by the journal
        # When acknowledged, and what; first come first.
        self._deletable: deque[tuple[int, OutcomeRecord]] = deque()
        self._next_due_ms = 0  # nothing is due before; 0: somebody has to look
        self._blocked = False  # the first of these is not in the journal yet
        self._transaction = Transaction(start_ms)
        self._rolling_back = False  # while a turn is undone

    @property
    def total(self) -> int:
        """How many operations wait, or have ended and are not acknowledged.

        Or are kept all the same, beyond `RETAINED_OUTCOMES`: because the journal does not write
        them down.
        """
        kept = max(0, len(self._deletable) - RETAINED_OUTCOMES)
        return self.purgatory.delayed + self.unacknowledged + kept

    def client(self, name: str) -> ClientRecord:
        """The client of a name."""
        client = self.clients.get(name)
        if client is None:
            client = self.clients[name] = ClientRecord(name)
        return client

    def begin(self, now_ms: int) -> Transaction:
        """Begin a turn."""
        self._transaction = Transaction(max(now_ms, self._transaction.now_ms))
        return self._transaction

    def expire(self) -> None:
        """Let expire what is due, or a portion of it."""
        now_ms = self.clock.now_ms = self._transaction.now_ms
        next_due_ms, self._next_due_ms = self._next_due_ms, 0
        if now_ms < next_due_ms:
            return
        self.timer.advance_clock()
        ended = self._transaction.ended
        self.executor.run(lambda: len(ended) >= MAX_EXPIRED_PER_TRANSACTION)

    def next_due_ms(self) -> int | None:
        """When something is due; None: nothing waits."""
        now_ms = self.clock.now_ms
        if self.executor:
            return now_ms
        delay = self.timer.delay_to_next()
        self._next_due_ms = sys.maxsize if delay is None else now_ms + round(delay * 1000)
        return None if delay is None else self._next_due_ms

    def submit(
        self, client: ClientRecord, submissions: Iterable[Submission]
    ) -> tuple[list[Refusal], list[Known], list[OutcomeRecord]]:
        """Have operations wait: which were refused, which were known, and their ends if any."""
        refused: list[Refusal] = []
        known: list[Known] = []
        ended: list[OutcomeRecord] = []
        total = self.total
        clock_ms = self.clock.now_ms
        for index, submission in enumerate(submissions):
            values: Values = astuple(submission)
            before = self.known.get(values[0])
            if before is not None and before.client is client:
                known.append(Known(index, _state(before)))
                if isinstance(before, OutcomeRecord):
                    ended.append(before)
                continue
            refusal = self.validator.submission(submission, values, client, total, before)
            if refusal is None:
                self._take(client, submission, values, clock_ms)
                total += 1
            else:
                refused.append(Refusal(index, refusal.code, str(refusal)))
        return refused, known, ended

    def _take(
        self, client: ClientRecord, submission: Submission, values: Values, clock_ms: int
    ) -> None:
        op_id, keys, timeout_ms, need, kind, payload = values
        transaction = self._transaction
        now_ms = transaction.now_ms
        self._number = number = self._number + 1
        operation = PendingOperation(
            number,
            client,
            op_id,
            sys.intern(kind) if kind else "",
            now_ms,
            now_ms + timeout_ms,
            need,
            len(payload) != 1 or bytes(payload) != NOTHING,
            clock_ms,
        )
        self._watch(operation, keys)
        transaction.submitted.append(operation)
        batch = transaction.batch
        if batch is None or batch.client != client.name or len(batch.operations) >= MAX_BATCH:
            transaction.batch = batch = OperationBatch(number, client.name, now_ms, [])
            transaction.changes.operations.append(batch)
        batch.operations.append(submission)

    def _watch(self, operation: PendingOperation, keys: Sequence[str]) -> None:
        self._next_due_ms = 0
        self.purgatory.try_complete_else_watch(operation, keys)
        operation.keys = operation._op_keys  # type: ignore[assignment]  # the texts it was given
        operation.client.count += 1
        self.known[operation.op_id] = operation

    def complete(self, completions: Iterable[Completion]) -> list[int]:
        """Complete keys; how many operations each completed."""
        transaction = self._transaction
        counts = []
        for completion in completions:
            context = CompletionContext(
                bytes(completion.value), transaction.now_ms, transaction.progressed
            )
            counts.append(self.purgatory.complete(completion.key, context))
        return counts

    def cancel(self, op_ids: Iterable[str]) -> list[bool]:
        """Cancel operations; whether this did."""
        done = []
        for op_id in op_ids:
            operation = self.known.get(op_id)
            waits = (
                isinstance(operation, PendingOperation)
                and self._transaction.now_ms <= operation.due_ms
            )
            done.append(waits and isinstance(operation, PendingOperation) and operation.cancel())
        return done

    def acknowledge(self, client: ClientRecord, seqs: Iterable[int]) -> None:
        """Outcomes need not be told again. Not undone: it is true whatever the disk does."""
        for seq in seqs:
            ended = client.unacknowledged.pop(seq, None)
            if ended is not None:
                self._mark_deletable(ended)

    def expire_retained(self, before_ms: int) -> None:
        """Let go of outcomes that have been kept since before a moment."""
        for client in list(self.clients.values()):
            for seq, ended in list(client.unacknowledged.items()):
                if ended.ended_ms >= before_ms:
                    break
                del client.unacknowledged[seq]
                self._mark_deletable(ended)
            self.drop_if_idle(client)

    def _mark_deletable(self, ended: OutcomeRecord) -> None:
        ended.client.count -= 1
        self.unacknowledged -= 1
        self._deletable.append((self._transaction.now_ms, ended))
        self.drop_if_idle(ended.client)

    def drop_if_idle(self, client: ClientRecord) -> None:
        """Forget a client that has nothing and is not there."""
        if not client.count and not client.connections:
            self.clients.pop(client.name, None)

    def journaled(self, position: JournalPosition) -> None:
        """Rows up to these numbers are safe in the journal, and no others."""
        self._journal_position = position
        self._blocked = False

    def next_deletion_ms(self) -> int | None:
        """When acknowledged outcomes are to be forgotten; None: there are none."""
        waiting = self._deletable
        if not waiting or self._blocked:
            return None
        return (
            self._transaction.now_ms
            if len(waiting) > RETAINED_OUTCOMES
            else waiting[0][0] + RETAINED_OUTCOMES_MS
        )

    def delete_acknowledged(self, *, everything: bool = False) -> None:
        """Have acknowledged outcomes deleted with this turn: those that are kept long enough.

        After the turn's requests: an id that is forgotten may be used again in the next one.
        """
        transaction = self._transaction
        waiting = self._deletable
        while waiting and (everything or len(transaction.deleted) < MAX_DELETED_PER_TRANSACTION):
            acknowledged_ms, ended = waiting[0]
            young = (
                acknowledged_ms + RETAINED_OUTCOMES_MS > transaction.now_ms
                and len(waiting) <= RETAINED_OUTCOMES
            )
            self._blocked = (
                ended.number > self._journal_position.operations
                or ended.seq > self._journal_position.outcomes
            )
            if self._blocked or (young and not everything):
                break
            waiting.popleft()
            self.known.pop(ended.op_id)
            transaction.deleted.append((acknowledged_ms, ended))
            transaction.changes.delete_operations.append(ended.number)
            transaction.changes.delete_outcomes.append(ended.seq)

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Write down an end; called by the purgatory, whose journal the room is."""
        assert isinstance(operation, PendingOperation)
        if self._rolling_back:
            return
        transaction = self._transaction
        self._seq = seq = self._seq + 1
        name = _name(outcome)
        at_ms = operation.due_ms if outcome is EXPIRED else transaction.now_ms
        end = OutcomeRecord(
            seq, operation.number, operation.op_id, operation.client, name, transaction.now_ms
        )
        transaction.ended.append((operation, end))
        result = result_of(operation)
        transaction.changes.outcomes += (
            seq,
            operation.number,
            name,
            at_ms,
            transaction.now_ms - at_ms,
            operation.by_key or "",
            "" if result is None else bytearray(result),
        )
        self._remember(end)

    def _remember(self, ended: OutcomeRecord) -> None:
        self.known[ended.op_id] = ended
        ended.client.unacknowledged[ended.seq] = ended
        self.unacknowledged += 1

    def prepare_commit(self) -> None:
        """Complete the turn's changes, just before they are committed."""
        transaction = self._transaction
        for operation, key in transaction.progressed:
            assert operation.values is not None
            transaction.changes.progress += (
                operation.number,
                key,
                bytearray(operation.values[key]),
            )

    def roll_back(self) -> None:
        """Take back all that the turn did: its commit failed."""
        transaction = self._transaction
        self._rolling_back = True
        try:
            for operation, key in transaction.progressed:
                assert operation.values is not None
                del operation.values[key]
            new = {operation.number for operation in transaction.submitted}
            for operation, ended in transaction.ended:
                self._restore(operation, ended, keep=operation.number not in new)
            for operation in transaction.submitted:
                operation.cancel()
                self.known.pop(operation.op_id, None)
                operation.client.count -= 1
        finally:
            self._rolling_back = False
        for _, ended in transaction.deleted:
            self.known[ended.op_id] = ended
        self._deletable.extendleft(reversed(transaction.deleted))
        self._transaction = Transaction(transaction.now_ms)

    def _restore(self, operation: PendingOperation, ended: OutcomeRecord, *, keep: bool) -> None:
        if operation.client.unacknowledged.pop(ended.seq, None) is None:
            return  # acknowledged before it was told: no client of ours does that
        self.unacknowledged -= 1
        if keep:
            operation.client.count -= 1  # `_watch` counts it again
            self._watch(operation.copy_pending(self.clock.now_ms), operation.keys)

    def load(self, store: Store) -> None:
        """Fill an empty room with what is on disk. Raises StoreError."""
        self._number, self._seq = store.last()
        ends = {outcome.number: outcome for outcome in store.outcomes()}
        progress: dict[int, dict[str, bytes]] = {}
        for number, key, value in store.progress():
            progress.setdefault(number, {})[key] = value
        for row in store.operations():
            client = self.client(sys.intern(row.client))
            outcome = ends.pop(row.number, None)
            if outcome is None:
                self._load(client, row, progress)
                continue
            client.count += 1
            ended_ms = outcome.at_ms + outcome.lateness_ms
            self._remember(
                OutcomeRecord(outcome.seq, row.number, row.op_id, client, outcome.outcome, ended_ms)
            )
        for client in self.clients.values():
            client.unacknowledged = dict(sorted(client.unacknowledged.items()))

    def _load(
        self, client: ClientRecord, row: StoredOperation, progress: dict[int, dict[str, bytes]]
    ) -> None:
        operation = PendingOperation(
            row.number,
            client,
            row.op_id,
            sys.intern(row.kind),
            row.submitted_ms,
            row.deadline_ms,
            row.need,
            row.payload is not None,
            self.clock.now_ms,
        )
        operation.values = progress.get(row.number)
        self._watch(operation, row.keys)


def result_of(operation: PendingOperation) -> bytes | None:
    """What an operation came to: a value, or a map of them if it needed several keys."""
    if operation.by_key is None:
        return None
    if operation.need > 1:
        values = operation.values or {}
        return encode({key: Raw(value) for key, value in values.items()})
    return None if operation.value == NOTHING else operation.value


def _name(outcome: Outcome) -> str:
    """Its value; of an enum's member that is a call, and here one for each end."""
    if outcome is COMPLETED:
        return "completed"
    return "expired" if outcome is EXPIRED else "cancelled"


def _state(entry: PendingOperation | OutcomeRecord) -> str:
    return entry.outcome if isinstance(entry, OutcomeRecord) else "pending"
