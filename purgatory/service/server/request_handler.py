"""RequestHandler: carries out the requests of clients, and makes the frames of replies.

Changes happen at once, in the open transaction, and are answered after its commit: no client hears
of a change that is rolled back. For reads see `reads`. Store thread alone; any thread may read
`refused`.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from purgatory.errors import StoreError
from purgatory.service.encoding import encode
from purgatory.service.errors import Refused, refusal_of
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
    Acknowledge,
    Acknowledged,
    Cancel,
    Complete,
    Completed,
    Extend,
    Fail,
    Failed,
    Failure,
    Finish,
    Keep,
    Request,
    Submit,
    Welcome,
    Work,
)
from purgatory.service.server.commands import (
    ClientCommand,
    ClientConnected,
    ClientDisconnected,
    ClientRequest,
    TransactionReplies,
)
from purgatory.service.server.event_requests import EventRequests
from purgatory.service.server.jobs.control_requests import ControlRequests
from purgatory.service.server.jobs.job_answers import job_end_frames
from purgatory.service.server.jobs.mass_cancels import MassCancel
from purgatory.service.server.leases.job_frames import JobFrames
from purgatory.service.server.leases.job_requests import JobRequests
from purgatory.service.server.leases.lease_ends import WORKER_GONE
from purgatory.service.server.limits.limit_requests import LimitRequests
from purgatory.service.server.named_leases.lease_requests import NamedLeaseRequests
from purgatory.service.server.reads.outcome_frames import outcome_pushes
from purgatory.service.server.reads.pending_reads import PendingReads
from purgatory.service.server.records.spreads import SpreadRequest
from purgatory.service.server.repeats.repeat_requests import RepeatRequests
from purgatory.service.server.repeats.repeat_runs import RepeatRuns
from purgatory.service.server.state import ServerState
from purgatory.service.server.submit_requests import SubmitRequests
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.server.validation import RequestValidator
from purgatory.service.store.contract import Store

log: logging.Logger = logging.getLogger(__name__)

#: Carries out a request in the open transaction; returns the answer, None: it comes later.
Change = Callable[[Transaction, ClientRequest, Any], Any]


class RequestHandler:
    """Handles requests with the rules of `validator`.

    `stats` answers a `Stats` request; `server`: the server's name in `Welcome`.
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
        self._submits = SubmitRequests(state, store, validator)
        self._job_frames = JobFrames(state.leases, store)
        self.reads: PendingReads = PendingReads(state, store, stats, validator.limits.message_bytes)
        #: Refused requests, and operations of submits.
        self.refused: int = 0
        events = EventRequests(state, validator)
        jobs = JobRequests(state.leases, validator)
        self._control = ControlRequests(state, validator)
        self.repeat_runs: RepeatRuns = RepeatRuns(state, validator)
        repeats = RepeatRequests(state, validator, self.repeat_runs)
        self.reads.answers[ReadRepeats] = repeats.answer_list
        self._changes: dict[type[Request], Change] = {
            Complete: events.complete,
            Fail: events.fail,
            Cancel: events.cancel,
            Extend: events.extend,
            Finish: jobs.finish,
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

    def handle_safely(self, transaction: Transaction, command: ClientCommand) -> Transaction:
        """Handle a command; return its transaction, or after an unexpected error a new one."""
        try:
            self.handle(transaction, command)
        except Exception as error:
            if not isinstance(command, ClientRequest):
                raise
            refusal = refusal_of(error)
            log.exception("a request of client %r has failed: %s", command.client, refusal)
            transaction.roll_back()
            again = Transaction(self._state, transaction.clock_ns)
            again.unconditional_replies = transaction.unconditional_replies
            self.refuse(again, command, refusal)
            for other, _ in transaction.writes:
                again = self.handle_safely(again, other)
            return again
        return transaction

    def handle(self, transaction: Transaction, command: ClientCommand) -> None:
        """Handle a request, a connection or the end of a connection."""
        if isinstance(command, ClientRequest):
            if self._state.leases.lapsed:
                self._state.leases.hear(command.route)
            self._try(transaction, command)
        elif isinstance(command, ClientConnected):
            self._state.clients.record(command.client).connections += 1
            welcome = Welcome(command.seq, command.version, self._server, self._validator.limits)
            transaction.unconditional_replies.append((command.route, welcome))
        else:
            self._disconnect(transaction, command)

    def _disconnect(self, transaction: Transaction, command: ClientDisconnected) -> None:
        self.reads.disconnect(command)
        transaction.repeated_outcomes = [
            one for one in transaction.repeated_outcomes if one[0].route != command.route
        ]
        for job in self._state.leases.drop_worker(command.route, command.client):
            transaction.jobs.lease_ends.lose(job, WORKER_GONE)
        self._state.named_leases.disconnect(command.route, transaction.clock_ms)
        client = self._state.clients.record(command.client)
        client.connections -= 1
        self._state.clients.drop_if_idle(client)

    def _try(self, transaction: Transaction, command: ClientRequest) -> None:
        try:
            self._apply(transaction, command)
        except Refused as refusal:
            self.refuse(transaction, command, refusal)

    def _apply(self, transaction: Transaction, command: ClientRequest) -> None:
        request = command.request
        if isinstance(request, Submit):
            if self.reads.repeated.by_route:
                self.reads.repeated.check_room(command.route)
            reply = self._submits.submit(transaction, command, request)
            self.refused += len(reply.refused)
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
        """Do a request once: later, repeat the reply."""
        session, request = command.session, command.request
        seq = request.seq
        if not session:
            reply = change(transaction, command, request)
            if reply is None or not self._is_spread(transaction, command, reply):
                transaction.writes.append((command, reply))
            return
        replies = self._state.replies
        session = replies.key(command.client, session)
        if self._is_under_way(transaction, command, session):
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
            transaction.remember_reply(session, seq, frame)
        elif not replies.is_new(session, seq):  # already on disk
            transaction.unconditional_replies.append((command.route, Raw(frame)))
            return
        transaction.writes.append((command, Raw(frame)))

    def _is_under_way(self, transaction: Transaction, command: ClientRequest, session: str) -> bool:
        """Add a request to the same one, if unfinished: the end answers both."""
        seq, cancels = command.request.seq, self._state.mass_cancels
        if (spread := self._state.spread_requests.get((session, seq))) is not None:
            commands, is_new = spread.commands, spread.is_new
        elif (cancel := cancels.find(session, seq)) is not None:
            commands, is_new = cancel.commands, cancel in cancels.begun
        else:
            return self._state.waiting_moves.join(command)
        commands.append(command)
        if is_new:  # a failed commit refuses both
            transaction.writes.append((command, None))
        return True

    def _is_spread(
        self, transaction: Transaction, command: ClientRequest, reply: Any, session: str = ""
    ) -> bool:
        """Whether a request began spreads: their end answers the request."""
        begun = [spread for spread in transaction.events.begun if not spread.request.left]
        if not begun:
            return False
        failed = isinstance(reply, Failed)
        request = SpreadRequest(session, reply.seq, reply.counts, failed=failed)
        request.commands.append(command)
        for spread in begun:
            spread.request = request
            spread.count += request.counts[spread.place]  # due jobs, cancelled already
            request.left += 1
        if session:
            self._state.spread_requests[session, reply.seq] = request
        transaction.writes.append((command, None))
        return True

    def finish_spreads(self, transaction: Transaction) -> None:
        """Answer the requests whose spreads have ended."""
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
        """Continue a cancellation by filter; answer at the end."""
        ended = self._control.cancel_more(transaction)
        if ended is not None:
            cancel, frame = ended
            self._answer_late(transaction, cancel, cancel.request.seq, frame)

    def _answer_late(
        self, transaction: Transaction, ended: SpreadRequest | MassCancel, seq: int, frame: bytes
    ) -> None:
        if ended.session:
            transaction.remember_reply(ended.session, seq, frame)
        transaction.late_replies += [(command.route, Raw(frame)) for command in ended.commands]

    def move_more(self, transaction: Transaction) -> None:
        """Carry out the decided requests to reschedule."""
        for command in self._control.take_decided(transaction):
            self._try(transaction, command)

    def refuse(self, transaction: Transaction, command: ClientRequest, refusal: Refused) -> None:
        """Answer that a request was not done."""
        request = command.request
        self.refused += len(request.operations) if isinstance(request, Submit) else 1
        failure = Failure(command.request.seq, refusal.code, str(refusal))
        transaction.unconditional_replies.append((command.route, failure))

    def answer(self, transaction: Transaction, size: int) -> TransactionReplies:
        """Encode a committed transaction's answers, and lease jobs. Raises StoreError."""
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
        """Encode the replies to a rolled back transaction: its changes are refused."""
        transaction.repeated_outcomes = []
        for command, _ in transaction.writes:
            if not self._answer_known(transaction, command, refusal):
                self.refuse(transaction, command, refusal)
        self._repeat_outcomes(transaction)
        return TransactionReplies(_encoded(transaction.unconditional_replies), [], size)

    def _repeat_outcomes(self, transaction: Transaction) -> None:
        for command, records in transaction.repeated_outcomes:
            self.reads.repeat(command, records)

    def _answer_known(
        self, transaction: Transaction, command: ClientRequest, refusal: Refused
    ) -> bool:
        """Answer a rejected submit with known operations; False: none, or they cannot be read."""
        request = command.request
        if not isinstance(request, Submit):
            return False
        try:
            reply = self._submits.reject(transaction, command, request, refusal)
        except StoreError as error:
            refusal_of(error)  # raises it if the store is damaged
            return False
        if len(reply.refused) == len(request.operations):
            return False
        self.refused += len(reply.refused)
        transaction.unconditional_replies.append((command.route, reply))
        return True


def _encoded(replies: list[tuple[bytes, Any]]) -> list[tuple[bytes, bytes]]:
    return [(route, encode(reply)) for route, reply in replies]
