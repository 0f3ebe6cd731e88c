"""Transaction: changes that are committed or dropped together. Store thread alone."""

import sys
from typing import Any

from _purgatory_cpython.mypyc_types import i64
from purgatory.core.operations.operation_state import CANCELLED, COMPLETED, EXPIRED, Outcome
from purgatory.service.protocol import MADE_UP, NOTHING, TimeoutExtension
from purgatory.service.server.clock import NS_PER_MS
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.jobs.job_changes import JobChanges
from purgatory.service.server.jobs.job_index import life_bytes
from purgatory.service.server.journal.job_rows import JobRows
from purgatory.service.server.limits.kind_limits import LimitChanges
from purgatory.service.server.memory import operation_bytes
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord
from purgatory.service.server.records.job_record import CANCELLED as CANCELLED_JOB
from purgatory.service.server.records.job_record import SCHEDULED, JobRecord
from purgatory.service.server.records.operation import Ended, PendingOperation, new_job
from purgatory.service.server.repeats.repeat_changes import RepeatChanges
from purgatory.service.server.server_health import RecentFailure, failure_text
from purgatory.service.server.state import OutcomeReceiver, ServerState
from purgatory.service.server.transactions.key_events import KeyEvents
from purgatory.service.server.validation import SubmissionValues
from purgatory.service.store.changes import Changes
from purgatory.service.store.rows import MAX_BATCH, OperationBatch, Options, reference_to

# Operations that a transaction expires, at most.
MAX_EXPIRED_PER_TRANSACTION = 1000
# A batch of so many bytes is full: it is read as a whole.
BATCH_BYTES = 1 << 16


class Transaction(OutcomeReceiver):
    """Changes at the state's stamp, which begins at the clock's `clock_ns`.

    The request handler fills a transaction; `prepare` completes `changes`, which the store commits;
    then `publish` or `roll_back` ends it.

    Nothing of its own is visible before `publish`: rows to write (`changes`), new operations, keys
    that counted, outcomes, outcomes to delete, and all replies that depend on the commit. None of
    these refers to the transaction, so dropping it frees all at once, without the cycle collector.

    Not its own, because copies would cost too much: the operations in the purgatory's watch lists
    and timer, their entries in `ServerState.known`, held events, and remembered replies. These
    change at once, and `roll_back` undoes the changes. Used numbers are not reused.
    """

    def __init__(self, state: ServerState, clock_ns: int) -> None:
        self._state = state
        self.clock_ns: i64 = max(clock_ns, state.clock.reading_ns)
        self.clock_ms: int = self.clock_ns // NS_PER_MS
        state.stamp.follow(self.clock_ms)
        self.changes: Changes = Changes()
        self._limits: LimitChanges | None = None  # made when used
        self._repeats: RepeatChanges | None = None  # likewise
        self._batch: OperationBatch | None = None  # the last of `changes.operations`
        self._batch_bytes = 0
        #: Whether the next transactions have due operations to expire.
        self.is_behind: bool = False
        self.submitted: list[PendingOperation] = []
        self.extended: list[tuple[PendingOperation, int]] = []  # with the deadline before
        self.outcomes: list[Ended] = []
        self.deleted: list[OutcomeRecord] = []
        self.writes: list[tuple[ClientRequest, Any]] = []  # changing requests, with their replies
        #: New operations with ids from callers.
        self.given_ids: int = 0
        #: Ends whose ids are in use again.
        self.replaced: list[PendingOperation | OutcomeRecord] = []
        self.repeated_outcomes: list[tuple[ClientRequest, list[OutcomeRecord]]] = []
        # Sent also after a failed commit: welcomes, refusals, repeated replies.
        self.unconditional_replies: list[tuple[bytes, Any]] = []
        self.late_replies: list[tuple[bytes, Any]] = []  # to requests of earlier transactions
        self.jobs: JobChanges = JobChanges(state, self.changes, self.clock_ms)
        self.events: KeyEvents = KeyEvents(state, self.changes, self.jobs)
        state.receiver = self
        state.spreads.settle = self.events.settle

    @property
    def limits(self) -> LimitChanges:
        """The limits of kinds in this transaction."""
        if self._limits is None:
            limits = self._state.leases.limits
            self._limits = LimitChanges(limits, self.changes, self.clock_ms)
        return self._limits

    @property
    def repeats(self) -> RepeatChanges:
        """The repeats in this transaction."""
        if self._repeats is None:
            self._repeats = RepeatChanges(self._state.repeats, self.changes)
        return self._repeats

    def _deadline_ns(self, timeout_ms: i64) -> int:
        # Exact, unless the stamp is ahead of the clock.
        return max(self.clock_ns, self._state.stamp.now_ms * NS_PER_MS) + timeout_ms * NS_PER_MS

    @property
    def total(self) -> int:
        """The state's `total`, with the transaction's outcomes."""
        return self._state.total + len(self.outcomes)

    def remember_reply(self, session: str, seq: int, frame: bytes) -> None:
        """Remember the encoded reply to a session's request."""
        self._state.replies.add(session, seq, frame, self._state.stamp.now_ms, self.changes)

    def expire(self) -> None:
        """Expire due operations, of many some, and release held events."""
        state, outcomes = self._state, self.outcomes
        self.is_behind = state.expire_due(
            self.clock_ns, lambda: len(outcomes) >= MAX_EXPIRED_PER_TRANSACTION
        )
        if state.held.by_key:
            self.events.release_held(self.clock_ms)

    def submit(
        self,
        client: ClientRecord,
        values: SubmissionValues,
        size: int,
        options: Options | None = None,
    ) -> None:
        """Let a valid new operation wait.

        `size`: its memory, see `operation_bytes`.
        """
        op_id, keys, timeout_ms, need, kind, payload = values
        state = self._state
        if state.stamp.keys:
            self.events.separate_submission(keys)
        now_ms = state.stamp.now_ms
        state.last_number = number = state.last_number + 1
        operation = PendingOperation(
            number,
            client,
            op_id,
            sys.intern(kind) if kind else "",
            now_ms,
            self._deadline_ns(timeout_ms),
            need,
            len(payload) != 1 or bytes(payload) != NOTHING,
            state.clock.reading_ns,
        )
        if (before := state.known.get(op_id)) is not None:
            self.replaced.append(before)  # after its period
        state.watch(operation, keys)
        if len(operation.keys) < len(keys):  # some were given twice
            size = operation_bytes(op_id, kind, operation.keys)
        operation.bytes = size
        state.pending_bytes += size
        client.count += 1
        self.submitted.append(operation)
        batch = self._batch
        if (
            batch is None
            or batch.client != client.name
            or batch.submitted_ms != now_ms
            or len(batch.operations) >= MAX_BATCH
            or self._batch_bytes >= BATCH_BYTES
        ):
            self._batch_bytes = 0
            self._batch = batch = OperationBatch(number, client.name, now_ms, [])
            self.changes.operations.append(batch)
        batch.operations.append(values if options is None else (*values, 0, options))
        if need == 0 or options is not None:
            self._add_options(operation, options)
        self._batch_bytes += len(payload) + (
            len(keys[0]) if len(keys) == 1 else sum(map(len, keys))
        )
        if state.held.by_key:
            self.events.count_held(operation)

    def _add_options(self, operation: PendingOperation, options: Options | None) -> None:
        operation.options = options
        if options is not None and options.unique_ms != MADE_UP:
            self.given_ids += 1
        if options is not None and options.unique_ms > 0:
            self._state.remembered.reserved += 1
        if operation.need:
            return
        job = operation.job = new_job(operation)
        self._state.jobs.bytes += life_bytes(job)

    def extend(self, extension: TimeoutExtension, owner: str | None) -> bool:
        """Extend an operation; False if it has ended."""
        operation = self.find(extension.op_id, owner)
        now_ms = self._state.stamp.now_ms
        if not isinstance(operation, PendingOperation) or now_ms > operation.op_deadline_ms:
            return False
        self._set_timeout(operation, extension.timeout_ms)
        return True

    def _set_timeout(self, operation: PendingOperation, timeout_ms: int) -> None:
        state = self._state
        self.extended.append((operation, operation.op_deadline_ns))
        state.set_deadline(operation, self._deadline_ns(timeout_ms))
        self.changes.deadlines += (operation.number, operation.op_deadline_ms)
        if state.journal_numbers.is_used and operation.job is None:
            number, now_ms = state.journal_numbers.next_extension(), state.stamp.now_ms
            self.changes.queued_extensions += (number, operation.op_id, now_ms, timeout_ms)

    def move_job(self, entry: PendingOperation | OutcomeRecord | None, due_ms: int) -> bool:
        """Move a job to `due_ms`; False if it runs, has ended, or does not exist."""
        if entry is None or entry.job is None:
            return False
        if isinstance(entry, OutcomeRecord):
            return self.jobs.move(entry, due_ms)
        self._set_timeout(entry, max(0, due_ms - self._state.stamp.now_ms))
        return True

    def find(self, op_id: str, owner: str | None) -> PendingOperation | OutcomeRecord | None:
        """Return an entry for a change; see `ServerState.find`."""
        operation = self._state.find(op_id, owner)
        if isinstance(operation, PendingOperation) and self._state.spreads.by_key:
            self.events.settle(operation)
            return self._state.find(op_id, owner)
        return operation

    def cancel(self, op_id: str, owner: str | None) -> bool:
        """Cancel an operation; False if it has ended."""
        operation = self.find(op_id, owner)
        now_ms = self._state.stamp.now_ms
        if not isinstance(operation, PendingOperation) or now_ms > operation.op_deadline_ms:
            return False
        return operation.cancel()

    def delete_outcomes(self) -> None:
        """Delete outcomes; later transactions can use their ids."""
        self.deleted = self._state.retention.select_deletable(self.clock_ms)
        self.changes.delete_operations = [record.number for record in self.deleted]
        self.changes.delete_outcomes = [record.seq for record in self.deleted]

    def keep_outcomes(self, after: int) -> None:
        """Take `delete_outcomes` back, but for the first `after` outcomes."""
        changes = self.changes
        del self.deleted[after:], changes.delete_operations[after:], changes.delete_outcomes[after:]

    def delete_journaled(self) -> None:
        """Delete queued rows that the journal has, of many some."""
        self.changes.delete_queued = self._state.journal_numbers.select_deletable(self.clock_ms)

    def add_outcome(self, operation: PendingOperation, outcome: Outcome) -> None:
        """Note the end of an operation."""
        state = self._state
        state.last_seq = seq = state.last_seq + 1
        number = operation.number
        op_id = operation.op_id
        name = _name(outcome)
        now_ms = state.stamp.now_ms
        if outcome is EXPIRED and operation.op_deadline_ms == now_ms:
            state.stamp.close(operation.keys)
        record = OutcomeRecord(seq, number, op_id, operation.client, name, now_ms, operation.job)
        if operation.options is not None:
            record.unique_ms = operation.options.unique_ms
        if operation.job is not None and outcome is not EXPIRED:
            JobRows(state.journal_numbers, self.changes).add_cancelled(operation, now_ms)
        state.known[op_id] = record
        at_ms = now_ms
        if outcome is EXPIRED:
            at_ms = operation.op_deadline_ms
        elif outcome is not CANCELLED:
            at_ms = operation.ended_ms
        result = operation.result()
        self.outcomes.append((operation, record, at_ms, result))
        if len(self.outcomes) >= MAX_EXPIRED_PER_TRANSACTION:
            state.due.interrupt()
        self.changes.outcomes += (
            seq,
            number,
            name,
            at_ms,
            now_ms - at_ms,
            operation.by_key or "",
            "" if result is None else _stored(operation, result),
        )

    def prepare(self) -> None:
        """Complete `changes`."""
        if self.events.progressed or self.events.held_before or self.events.spreads_before:
            self.events.prepare()
        if self._repeats is not None:
            self._repeats.prepare()
        if self._limits is not None:
            self._limits.prepare()
        if self._state.named_leases.before:
            self.late_replies += self._state.named_leases.prepare(self.changes)

    def publish(self) -> None:
        """Make the committed changes visible; end the transaction."""
        self._state.receiver = self._state.spreads.settle = None
        retention, remembered = self._state.retention, self._state.remembered
        self._state.replies.publish()
        self._publish_scheduled()
        if self.events.progressed or self.events.spreads_before:
            self.events.publish()
        self._publish_outcomes()
        if self.deleted:
            retention.delete(self.deleted)
            remembered.reserved -= sum(record.unique_ms > 0 for record in self.deleted)
        if self._state.named_leases.before:
            self._state.named_leases.publish()
        if self.changes.remembered is not None:
            remembered.publish(self.changes.remembered)
        cancels = self._state.mass_cancels
        if cancels.running or cancels.begun:
            cancels.publish()
        if self._state.waiting_moves.new:
            self._state.waiting_moves.publish()
        for changed in (self.jobs.made_lease_ends, self._repeats, self._limits):
            if changed is not None:
                changed.publish()
        if self.changes.delete_queued is not None:
            self._state.journal_numbers.note_deleted(self.changes.delete_queued)

    def _publish_outcomes(self) -> None:
        for operation, record, _, _ in self.outcomes:
            if record.job is not None:
                self._publish_job(record, record.job)
            else:
                self._state.retention.add(record)
                self._state.operation_counts.end(record.client.name, record.outcome)
            if record.outcome == "failed":
                self._note_failure(operation, record)
            size = operation.bytes if operation.values is None else operation.all_bytes()
            self._state.pending_bytes -= size

    def _publish_scheduled(self) -> None:
        jobs, counts = self._state.jobs, self._state.operation_counts
        for before in self.replaced:
            if before.job is not None:
                jobs.remove(before.job)
            elif isinstance(before, OutcomeRecord):
                counts.forget(before.client.name, before.outcome)
        for operation in self.submitted:
            if operation.job is not None:
                jobs.add(operation.job)
            else:
                counts.add(operation.client.name)
        for operation, _ in self.extended:
            if operation.job is not None:
                jobs.move(operation.job, SCHEDULED, operation.op_deadline_ms)

    def _note_failure(self, operation: PendingOperation, record: OutcomeRecord) -> None:
        error = failure_text(operation.value or b"")
        client = record.client.name
        failure = RecentFailure(self.clock_ms, record.op_id, operation.kind, client, error)
        self._state.failures.add(failure)

    def _publish_job(self, record: OutcomeRecord, job: JobRecord) -> None:
        """Let a due job wait for a worker; other ends are cancellations."""
        state = self._state
        state.retention.add_job(record)
        if record.outcome == "expired":
            state.parts.lists.uncount(EXPIRED)  # not its end
            self.jobs.publish_due(record, job)
        else:
            state.jobs.set_state(job, CANCELLED_JOB)
            state.retention.end_job(record, self.clock_ms)

    def roll_back(self) -> None:
        """Undo all changes; end the transaction."""
        state = self._state
        state.receiver = state.spreads.settle = None  # the ends below are none
        self.events.roll_back()
        state.named_leases.roll_back()
        state.mass_cancels.roll_back()
        state.waiting_moves.roll_back()
        if self.jobs.made_lease_ends is not None:
            self.jobs.made_lease_ends.roll_back()
        if self._repeats is not None:
            self._repeats.roll_back()
        state.replies.roll_back()
        for operation, deadline_ns in reversed(self.extended):
            state.set_deadline(operation, deadline_ns)
        new = {operation.number for operation in self.submitted}
        lists = state.parts.lists
        for operation, record, _, _ in self.outcomes:
            lists.uncount(Outcome(record.outcome))
            if operation.number not in new:
                state.watch(operation.copy_pending(state.clock.reading_ns), operation.keys)
        self.events.reach_again()
        self._forget_submitted()

    def _forget_submitted(self) -> None:
        state, lists = self._state, self._state.parts.lists
        for operation in self.submitted:
            if operation.cancel():
                lists.uncount(CANCELLED)
            operation.client.count -= 1
            state.pending_bytes -= operation.bytes
            if operation.job is not None:
                state.jobs.bytes -= life_bytes(operation.job)
            if operation.options is not None and operation.options.unique_ms > 0:
                state.remembered.reserved -= 1
            del state.known[operation.op_id]
        for before in self.replaced:
            state.known[before.op_id] = before


def _stored(operation: PendingOperation, result: bytes) -> bytearray:
    """Return the result for the store, which has shared ones once."""
    return reference_to(operation.shared) if operation.shared else bytearray(result)


def _name(outcome: Outcome) -> str:
    """Return the value of an outcome, faster than `Outcome.value`."""
    if outcome is COMPLETED:
        return "completed"
    if outcome is EXPIRED:
        return "expired"
    return "cancelled" if outcome is CANCELLED else "failed"
