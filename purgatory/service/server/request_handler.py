"""RequestHandler: carries out the requests of clients, and makes the frames of replies.

Changes happen at once, in the open transaction, and are answered after its commit: no client hears
of a change that is rolled back. For reads see `reads`.

Store thread alone; `refused` may be read by any.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from msgspec import Raw
from msgspec.structs import astuple

from purgatory.service.encoding import decode_answer, encode
from purgatory.service.errors import OperationIdTaken, Refused, TooManyHeld, TooManySessions
from purgatory.service.job_messages import (
    Begin,
    CancelJobs,
    CancelMatching,
    ChangeRepeat,
    EndLease,
    KeepLease,
    ReadLimits,
    ReadRepeats,
    RescheduleJobs,
    RetryJobs,
    SetLimit,
    SetRepeat,
    TakeLease,
)
from purgatory.service.protocol import (
    DEFAULT,
    MADE_UP,
    Acknowledge,
    Acknowledged,
    Cancel,
    Cancelled,
    Complete,
    Completed,
    Completion,
    EndDead,
    Extend,
    Extended,
    Fail,
    Failed,
    Failure,
    Finish,
    Keep,
    Known,
    Refusal,
    Request,
    Submission,
    SubmissionOptions,
    Submit,
    Submitted,
    Welcome,
    Work,
)
from purgatory.service.server.commands import ClientConnected, ClientRequest, TransactionReplies
from purgatory.service.server.jobs.control_requests import ControlRequests
from purgatory.service.server.jobs.job_answers import job_end_frames
from purgatory.service.server.jobs.mass_cancels import MassCancel
from purgatory.service.server.leases.job_frames import JobFrames
from purgatory.service.server.leases.job_requests import JobRequests
from purgatory.service.server.limits.limit_requests import LimitRequests
from purgatory.service.server.memory import (
    held_bytes,
    job_bytes,
    operation_bytes,
    spread_bytes,
    value_bytes,
)
from purgatory.service.server.named_leases.lease_requests import NamedLeaseRequests
from purgatory.service.server.reads.outcome_frames import outcome_pushes
from purgatory.service.server.reads.pending_reads import PendingReads
from purgatory.service.server.reads.remembered_answers import RememberedReader
from purgatory.service.server.reads.status_answers import state_of
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.server.records.spreads import SpreadRequest
from purgatory.service.server.repeats.repeat_requests import RepeatRequests
from purgatory.service.server.repeats.repeat_runs import RepeatRuns
from purgatory.service.server.state import ServerState
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.server.validation import (
    RequestValidator,
    SubmissionFields,
    SubmissionValues,
    shown,
)
from purgatory.service.store.contract import Store
from purgatory.service.store.rows import Options

# Added to a session's name: submits have remembered answers of their own.
_SUBMITS: Final = "#submits"
#: Carries out a request, which the command has, in the open transaction; returns the answer, None:
#: it comes later.
Change = Callable[[Transaction, ClientRequest, Any], Any]


class RequestHandler:
    """Handles requests with the rules of `validator`.

    `stats` returns the answer to a `Stats` request; `server`: the server's name in `Welcome`.
    """

    def __init__(
        self,
        state: ServerState,
        store: Store,
        validator: RequestValidator,
        stats: Callable[[], dict[str, Any]],
        server: str,
    ) -> None:
        self._state = state
        self._validator = validator
        self._server = server
        self._store = store
        self._remembered = RememberedReader(state, store)
        self._job_frames = JobFrames(state.leases, store)
        self.reads: PendingReads = PendingReads(state, store, stats, validator.limits.message_bytes)
        #: How many requests, or operations of them, were refused.
        self.refused: int = 0
        jobs = JobRequests(state.leases, validator)
        self._control = ControlRequests(state, validator)
        self.repeat_runs: RepeatRuns = RepeatRuns(state, validator)
        repeats = RepeatRequests(state, validator, self.repeat_runs)
        self.reads.answers[ReadRepeats] = repeats.answer_list
        self._changes: dict[type[Request], Change] = {
            Complete: self._complete,
            Fail: self._fail,
            Cancel: self._cancel,
            Extend: self._extend,
            Finish: jobs.finish,
            EndDead: jobs.end_dead,
            CancelJobs: self._control.cancel,
            CancelMatching: self._control.cancel_matching,
            RescheduleJobs: self._control.reschedule,
            RetryJobs: self._control.retry,
            SetRepeat: repeats.declare,
            ChangeRepeat: repeats.change,
        }
        limits = LimitRequests(state, validator)
        self.reads.answers[ReadLimits] = limits.answer_list
        named_leases = NamedLeaseRequests(state.named_leases, validator)
        # Idempotent: no answers are remembered.
        self._repeatable: dict[type[Request], Change] = {
            TakeLease: named_leases.take,
            KeepLease: named_leases.keep,
            EndLease: named_leases.end,
            SetLimit: limits.change,
        }
        # Nothing on disk depends on them.
        self._in_memory: dict[type[Request], Change] = {
            Work: jobs.work,
            Keep: jobs.keep,
            Begin: jobs.begin,
        }

    def handle(self, transaction: Transaction, command: ClientRequest | ClientConnected) -> None:
        """Do what a request changes."""
        if isinstance(command, ClientConnected):
            self._state.clients.record(command.client).connections += 1
            welcome = Welcome(command.seq, command.version, self._server, self._validator.limits)
            transaction.unconditional_replies.append((command.route, welcome))
            return
        if self._state.leases.lapsed:
            self._state.leases.hear(command.route)
        self._try(transaction, command)

    def _try(self, transaction: Transaction, command: ClientRequest) -> None:
        try:
            self._apply(transaction, command)
        except Refused as refusal:
            self.refuse(transaction, command, refusal)

    def _apply(self, transaction: Transaction, command: ClientRequest) -> None:
        request = command.request
        if isinstance(request, Submit):
            given = transaction.given_ids
            if self.reads.repeated.by_route:
                self.reads.repeated.check_room(command.route)
            first = self._first_answer(command, request)
            reply = self._submit(transaction, command, request, first)
            self.refused += len(reply.refused)
            has_ids = transaction.given_ids != given or reply.known
            if has_ids and first is None and command.session:
                self._remember_submit(transaction, command, reply)
            transaction.writes.append((command, reply))
            return
        kind = type(request)
        if (change := self._changes.get(kind)) is not None:
            self._apply_once(transaction, command, change)
        elif isinstance(request, Acknowledge):
            self._acknowledge(transaction, command, request)
        elif (change := self._repeatable.get(kind)) is not None:
            transaction.writes.append((command, change(transaction, command, request)))
        elif (change := self._in_memory.get(kind)) is not None:
            if (answer := change(transaction, command, request)) is not None:
                transaction.unconditional_replies.append((command.route, answer))
        else:
            self.reads.add(command)

    def _first_answer(self, command: ClientRequest, request: Submit) -> Submitted | None:
        """Return the remembered answer to a submit; None if there is none.

        A client that lost the answer submits again.
        """
        if not command.session or not self._state.replies.bytes:
            return None
        frame = self._state.replies.find(self._submits_key(command), request.seq)
        if frame is None:
            return None
        first = decode_answer(frame)
        assert isinstance(first, Submitted)
        return first

    def _submits_key(self, command: ClientRequest) -> str:
        return self._state.replies.key(command.client, command.session + _SUBMITS)

    def _remember_submit(
        self, transaction: Transaction, command: ClientRequest, reply: Submitted
    ) -> None:
        """Remember the answer to a submit, if there is room.

        The client may submit again when a job has ended, and its id is forgotten.
        """
        with suppress(TooManySessions):
            key = self._submits_key(command)
            self._state.replies.check_room(command.client, key)
            self._remember(transaction, key, command.request.seq, encode(reply))

    def _acknowledge(
        self, transaction: Transaction, command: ClientRequest, request: Acknowledge
    ) -> None:
        client = self._state.clients.record(command.client)
        before = len(client.unacknowledged)
        self._state.retention.acknowledge(client, request.outcomes, transaction.clock_ms)
        if request.answer:
            reply = Acknowledged(request.seq, before - len(client.unacknowledged))
            transaction.unconditional_replies.append((command.route, reply))

    def _apply_once(self, transaction: Transaction, command: ClientRequest, change: Change) -> None:
        """Do a request; if it was done before, repeat the reply."""
        session, request = command.session, command.request
        seq = request.seq
        if not session:
            reply = change(transaction, command, request)
            if reply is None or not self._is_spread(transaction, command, reply):
                transaction.writes.append((command, reply))
            return
        replies = self._state.replies
        session = replies.key(command.client, session)
        if (spread := self._state.spread_requests.get((session, seq))) is not None:
            spread.commands.append(command)
            if spread.is_new:
                transaction.writes.append((command, None))
            return
        frame = replies.find(session, seq)
        if frame is None:
            replies.check_room(command.client, session)
            reply = change(transaction, command, request)
            if reply is None:
                transaction.writes.append((command, None))
                return
            if self._is_spread(transaction, command, reply, session):
                return
            frame = encode(reply)
            self._remember(transaction, session, seq, frame)
        elif (session, seq) not in transaction.remembered:  # already on disk
            transaction.unconditional_replies.append((command.route, Raw(frame)))
            return
        transaction.writes.append((command, Raw(frame)))

    def _is_spread(
        self, transaction: Transaction, command: ClientRequest, reply: Any, session: str = ""
    ) -> bool:
        """Whether a request began spreads, whose end answers it."""
        begun = [spread for spread in transaction.events.begun if not spread.request.left]
        if not begun:
            return False
        failed = isinstance(reply, Failed)
        request = SpreadRequest(session, reply.seq, reply.counts, failed=failed)
        request.commands.append(command)
        for spread in begun:
            spread.request = request
            request.left += 1
        if session:
            self._state.spread_requests[session, reply.seq] = request
        transaction.writes.append((command, None))
        return True

    def finish_spreads(self, transaction: Transaction) -> None:
        """Answer, after the commit, the requests whose spreads have ended."""
        finished = transaction.events.finished
        ended = Counter(spread.request for spread in finished)
        for spread in finished:
            spread.request.counts[spread.place] = spread.count
        for request, count in ended.items():
            if count == request.left:
                kind = Failed if request.failed else Completed
                frame = encode(kind(request.seq, request.counts))
                self._answer_late(transaction, request, request.seq, frame)

    def cancel_more(self, transaction: Transaction) -> None:
        """Continue a cancellation of many jobs; answer its request at the end."""
        ended = self._control.cancel_more(transaction)
        if ended is not None:
            cancel, frame = ended
            self._answer_late(transaction, cancel, cancel.request.seq, frame)

    def _answer_late(
        self, transaction: Transaction, ended: SpreadRequest | MassCancel, seq: int, frame: bytes
    ) -> None:
        if ended.session:
            self._remember(transaction, ended.session, seq, frame)
        transaction.late_replies += [(command.route, Raw(frame)) for command in ended.commands]

    def move_more(self, transaction: Transaction) -> None:
        """Carry out the waiting requests to reschedule that are decided."""
        for command in self._control.take_decided(transaction):
            self._try(transaction, command)

    def _remember(self, transaction: Transaction, session: str, seq: int, frame: bytes) -> None:
        transaction.remembered.append((session, seq))
        now_ms = self._state.stamp.now_ms
        self._state.replies.add(session, seq, frame, now_ms, transaction.changes)

    def _complete(self, transaction: Transaction, _: ClientRequest, request: Complete) -> Completed:
        for completion in request.completions:
            self._validator.check_completion(completion)
        self._check_held(request)
        self._check_memory(request)
        events = transaction.events
        counts = [events.complete(each, place) for place, each in enumerate(request.completions)]
        return Completed(request.seq, counts)

    def _extend(
        self, transaction: Transaction, command: ClientRequest, request: Extend
    ) -> Extended:
        for extension in request.extensions:
            self._validator.check_timeout(extension.timeout_ms)
        owner = command.owner
        done = [transaction.extend(extension, owner) for extension in request.extensions]
        return Extended(request.seq, done)

    def _fail(self, transaction: Transaction, _: ClientRequest, request: Fail) -> Failed:
        left = self._state.memory_left
        for failure in request.failures:
            self._validator.check_failure(failure)
            left = self._check_spread(failure.key, len(failure.message), left)
        events = transaction.events
        counts = [events.fail(each, place) for place, each in enumerate(request.failures)]
        return Failed(request.seq, counts)

    def _cancel(
        self, transaction: Transaction, command: ClientRequest, request: Cancel
    ) -> Cancelled:
        owner = command.owner
        return Cancelled(request.seq, [transaction.cancel(each, owner) for each in request.op_ids])

    def _check_held(self, request: Complete) -> None:
        held = self._state.held
        new = {c.key for c in request.completions if c.hold_ms and c.key not in held.by_key}
        most = self._validator.limits.held
        if new and len(held) + len(new) > most:
            raise TooManyHeld(f"the server holds {len(held)} events; expected at most {most}")

    def _check_spread(self, key: str, size: int, left: int) -> int:
        """Return the bytes left if an event waits for its captured operations."""
        lists = self._state.parts.lists
        if len(self._state.known) > self._state.portion and lists.sole_watcher(key) is None:
            watchers = lists.watchers_of(key)
            if self._state.is_for_many(len(watchers), b""):
                left -= spread_bytes(len(watchers), size)
                if left < 0:
                    raise self._state.no_room(f"the operations that wait for {shown(key)}")
        return left

    def _check_memory(self, request: Complete) -> None:
        """Raise TooMuchMemory without room for what completions leave behind.

        A completion that leaves nothing is never refused: it frees memory.
        """
        left = self._state.memory_left
        for completion in request.completions:
            left = self._check_spread(completion.key, len(completion.value), left)
            taken = self._bytes_left_behind(completion, left)
            left -= taken
            if taken and left < 0:
                raise self._state.no_room("what is held or counts for operations of several keys")

    def _bytes_left_behind(self, completion: Completion, left: int) -> int:
        """Return the bytes, at most, of a completion until its operations have ended."""
        size = held_bytes(completion.key, len(completion.value)) if completion.hold_ms else 0
        value = value_bytes(len(completion.value))
        # Count the operations that get the value only if room may be short.
        if value * len(self._state.known) > left:
            watchers = self._state.watchers_of(completion.key)
            size += value * sum(operation.need > 1 for operation in watchers)
        return size

    def _submit(
        self,
        transaction: Transaction,
        command: ClientRequest,
        request: Submit,
        first: Submitted | None,
        failure: Refused | None = None,
    ) -> Submitted:
        """Submit new operations, or refuse them for a `failure`.

        `first`: the request's earlier answer.
        """
        client = self._state.clients.record(command.client)
        all_known = self._state.known
        left = self._state.memory_left
        refused: list[Refusal] = []
        known: list[Known] = []
        outcomes: list[OutcomeRecord] = []
        total = transaction.total
        done = _taken_at_first(request, first)
        for index, submission in enumerate(request.operations):
            fields: SubmissionFields = astuple(submission)
            op_id, keys, timeout_ms, need, kind, payload, said = fields
            values: SubmissionValues = (op_id, keys, timeout_ms, need, kind, payload)
            before = all_known.get(op_id)
            if said is not None or before is not None:
                before = self._in_period(before, op_id, said, transaction.now_ms)
            if before is not None and _is_of(before, command.client, submission):
                _add_known(index, before, known, outcomes)
                continue
            if index in done:
                continue  # the operation has ended, and the id was free again
            options: Options | None = None
            refusal = (
                failure
                or _taken(before, submission, client)
                or self._validator.check_submission(submission, values, client, total)
            )
            if refusal is None and said is not None:
                values, options = self._with_options(values, said, transaction.now_ms)
                refusal = self._check_options(values, options, transaction.now_ms)
            if refusal is None:
                size = operation_bytes(op_id, kind, keys)
                life = 0 if need else job_bytes(() if options is None else options.tags, keys)
                if size + life <= left:
                    transaction.submit(client, values, size, options)
                    total += 1
                    left -= size + life
                    continue
                refusal = self._state.no_room(f"an operation of {size} bytes")
            refused.append(Refusal(index, refusal.code, str(refusal)))
        if outcomes:
            transaction.repeated_outcomes.append((command, outcomes))
        if first is not None:
            known = _known_as_at_first(known, first)
        return Submitted(request.seq, refused, known)

    def _in_period(
        self,
        known: PendingOperation | OutcomeRecord | None,
        op_id: str,
        said: SubmissionOptions | None,
        now_ms: int,
    ) -> PendingOperation | OutcomeRecord | None:
        """Return the holder of a submission's id; None: the id is free. Raises StoreError.

        `known`: the state's entry.
        """
        if isinstance(known, OutcomeRecord) and known.is_over(now_ms):
            return None
        if known is None and said is not None and said.unique_ms != MADE_UP:
            return self._remembered.find(op_id)
        return known

    def _with_options(
        self, values: SubmissionValues, said: SubmissionOptions, now_ms: int
    ) -> tuple[SubmissionValues, Options]:
        op_id, keys, timeout_ms, need, kind, payload = values
        if said.due_ms is not None and need == 0:
            timeout_ms = max(0, said.due_ms - now_ms)
        unique_ms = said.unique_ms
        if unique_ms == DEFAULT:
            unique_ms = self._state.remembered.remember_ms
        tags = tuple(dict.fromkeys(said.tags))
        options = Options(unique_ms, tags, said.priority, said.start_within_ms)
        return (op_id, keys, timeout_ms, need, kind, payload), options

    def _check_options(
        self, values: SubmissionValues, options: Options, now_ms: int
    ) -> Refused | None:
        remembered = self._state.remembered
        refusal = self._validator.check_options(values, options)
        if refusal is None and remembered.refusal(options.unique_ms) is not None:
            remembered.reserved -= self._state.retention.end_periods(now_ms)
            refusal = remembered.refusal(options.unique_ms)
        return refusal

    def refuse(self, transaction: Transaction, command: ClientRequest, refusal: Refused) -> None:
        """Answer that a request was not done."""
        request = command.request
        self.refused += len(request.operations) if isinstance(request, Submit) else 1
        failure = Failure(command.request.seq, refusal.code, str(refusal))
        transaction.unconditional_replies.append((command.route, failure))

    def answer(self, transaction: Transaction, size: int) -> TransactionReplies:
        """Encode the answers of a committed transaction, and lease jobs.

        `size`: the bytes of its requests. Raises StoreError.
        """
        self._repeat_outcomes(transaction)
        replies = [(one.route, reply) for one, reply in transaction.writes if reply is not None]
        replies += transaction.late_replies
        frames = _encoded(replies + transaction.unconditional_replies)
        outcomes = transaction.outcomes
        pushes = outcome_pushes(self._store, outcomes) if outcomes else []
        state = self._state
        if not state.unnoted and (state.leases.by_number or state.leases.untold):
            frames += self._job_frames.assign(transaction.clock_ms)
        if state.jobs.watches.ended:
            frames += job_end_frames(state, self._store)
        return TransactionReplies(frames, pushes, size)

    def reject(self, transaction: Transaction, refusal: Refused, size: int) -> TransactionReplies:
        """Encode the replies to a rolled back transaction: each change is refused."""
        transaction.repeated_outcomes = []
        for command, _ in transaction.writes:
            if not self._reply_to_known(transaction, command, refusal):
                self.refuse(transaction, command, refusal)
        self._repeat_outcomes(transaction)
        return TransactionReplies(_encoded(transaction.unconditional_replies), [], size)

    def _repeat_outcomes(self, transaction: Transaction) -> None:
        for command, records in transaction.repeated_outcomes:
            self.reads.repeat(command, records)

    def _reply_to_known(
        self, transaction: Transaction, command: ClientRequest, refusal: Refused
    ) -> bool:
        """Reply to a submit if some operations were on disk; else False.

        A client without an answer submits again: such operations must not be reported as refused.
        """
        request = command.request
        if not isinstance(request, Submit):
            return False
        first = self._first_answer(command, request)
        reply = self._submit(transaction, command, request, first, refusal)
        clients = self._state.clients
        clients.drop_if_idle(clients.record(command.client))
        if len(reply.refused) == len(request.operations):
            return False
        self.refused += len(reply.refused)
        transaction.unconditional_replies.append((command.route, reply))
        return True


def _taken_at_first(request: Submit, first: Submitted | None) -> set[int]:
    """Return the indexes of the operations that the first answer accepted."""
    if first is None:
        return set()
    refused = {refusal.index for refusal in first.refused}
    return set(range(len(request.operations))) - refused


def _known_as_at_first(known: list[Known], first: Submitted) -> list[Known]:
    """Return what was known at first, as it is now.

    So a client that lost the first answer to its submit learns which jobs are new.
    """
    now = {one.index: one for one in known}
    return [now.get(one.index, one) for one in first.known]


def _encoded(replies: list[tuple[bytes, Any]]) -> list[tuple[bytes, bytes]]:
    return [(route, encode(reply)) for route, reply in replies]


def _is_of(entry: PendingOperation | OutcomeRecord, client: str, submission: Submission) -> bool:
    """Whether the holder of an id is what a client submits again."""
    # By name: a client that was idle has a new record.
    return entry.client.name == client and _is_job(entry) == (submission.need == 0)


def _is_job(entry: PendingOperation | OutcomeRecord) -> bool:
    return entry.is_job if isinstance(entry, OutcomeRecord) else entry.need == 0


def _taken(
    entry: PendingOperation | OutcomeRecord | None, submission: Submission, client: ClientRecord
) -> Refused | None:
    """Return why an id cannot be taken; None if it is free."""
    if entry is None:
        return None
    whose = "another client"
    if entry.client.name == client.name:
        whose = "a job" if _is_job(entry) else "an operation that is no job"
    return OperationIdTaken(f"id {shown(submission.op_id)} belongs to {whose}")


def _add_known(
    index: int,
    entry: PendingOperation | OutcomeRecord,
    known: list[Known],
    outcomes: list[OutcomeRecord],
) -> None:
    known.append(Known(index, state_of(entry)))
    if isinstance(entry, OutcomeRecord) and not entry.is_job:
        outcomes.append(entry)
