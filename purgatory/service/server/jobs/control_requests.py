"""ControlRequests: carries out the requests that change jobs. Store thread alone."""

from typing import Final

from msgspec.structs import replace

from purgatory.service.encoding import encode
from purgatory.service.errors import Malformed, ServerBusy
from purgatory.service.job_messages import (
    CancelJobs,
    CancelMatching,
    JobFilter,
    JobsCancelled,
    JobsRescheduled,
    JobsRetried,
    MatchingCancelled,
    Reschedule,
    RescheduleJobs,
    RetryJobs,
)
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.jobs.job_index import wrong_filter
from purgatory.service.server.jobs.job_statuses import BY_REQUEST
from purgatory.service.server.jobs.mass_cancels import MOST, MassCancel
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.server.state import ServerState
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.server.validation import RequestValidator

_ANY: Final = JobFilter()
# A job's entry, and its new due time.
_Move = tuple[PendingOperation | OutcomeRecord | None, int]


class ControlRequests:
    """Carries out requests, or raises `Refused`."""

    def __init__(self, state: ServerState, validator: RequestValidator) -> None:
        self._state = state
        self._validator = validator

    def cancel(
        self, transaction: Transaction, command: ClientRequest, request: CancelJobs
    ) -> JobsCancelled:
        """Cancel jobs by id."""
        done = [
            transaction.jobs.cancel(transaction.find(job_id, command.owner), BY_REQUEST)
            for job_id in request.job_ids
        ]
        return JobsCancelled(request.seq, done)

    def cancel_matching(
        self, _: Transaction, command: ClientRequest, request: CancelMatching
    ) -> None:
        """Begin a cancellation by filter; its answer comes later."""
        wanted, cancels = request.wanted, self._state.mass_cancels
        if wanted == _ANY:
            raise Malformed("no filter is given; expected kind, state, tag or client")
        if (wrong := wrong_filter(wanted)) is not None:
            raise Malformed(wrong)
        session = command.session
        if session:
            session = self._state.replies.key(command.client, session)
        if len(cancels.running) + len(cancels.begun) >= MOST:
            raise ServerBusy(f"{MOST} cancellations by filter are under way; expected fewer")
        cancel = MassCancel(command, request, session, self._state.last_number)
        cancels.begun.append(cancel)

    def cancel_more(self, transaction: Transaction) -> tuple[MassCancel, bytes] | None:
        """Continue a cancellation by filter; if finished, return it with the answer."""
        cancels = self._state.mass_cancels
        first = cancels.running[0]
        jobs, after, is_end = first.next_jobs(self._state.jobs)
        count = 0
        for job in jobs:
            entry = transaction.find(job.op_id, None)
            if entry is not None and entry.job is job:
                count += transaction.jobs.cancel(entry, BY_REQUEST)
        cancels.note(after, count, is_end=is_end)
        if not is_end:
            return None
        return first, encode(MatchingCancelled(first.request.seq, first.count + count))

    def reschedule(
        self, transaction: Transaction, command: ClientRequest, request: RescheduleJobs
    ) -> JobsRescheduled | None:
        """Move jobs; None: the answer comes later."""
        dues = [self._due_ms(move, self._state.stamp.now_ms) for move in request.moves]
        moves = [
            (transaction.find(move.job_id, command.owner), due_ms)
            for move, due_ms in zip(request.moves, dues, strict=True)
        ]
        if _recall(transaction, moves):
            self._state.waiting_moves.add(replace(command, request=_at(request, dues)))
            return None
        return JobsRescheduled(request.seq, [transaction.move_job(*move) for move in moves])

    def take_decided(self, transaction: Transaction) -> list[ClientRequest]:
        """Remove and return the requests whose jobs are back, or have begun."""

        def is_decided(command: ClientRequest) -> bool:
            request, owner = command.request, command.owner
            assert isinstance(request, RescheduleJobs)
            moves = [
                (transaction.find(move.job_id, owner), move.due_ms or 0) for move in request.moves
            ]
            return not _recall(transaction, moves)

        return self._state.waiting_moves.take(is_decided)

    def _due_ms(self, move: Reschedule, now_ms: int) -> int:
        if (move.delay_ms is None) == (move.due_ms is None):
            raise Malformed(
                f"delay_ms is {move.delay_ms}, due_ms is {move.due_ms}; expected one of them"
            )
        delay_ms = move.delay_ms
        if delay_ms is None:
            assert move.due_ms is not None
            delay_ms = max(0, move.due_ms - now_ms)
        self._validator.check_timeout(delay_ms, "delay")
        return now_ms + delay_ms

    def retry(
        self, transaction: Transaction, command: ClientRequest, request: RetryJobs
    ) -> JobsRetried:
        """Retry or drop dead jobs."""
        owner, drop = command.owner, request.drop
        done = [self._retry(transaction, job_id, owner, drop=drop) for job_id in request.job_ids]
        return JobsRetried(request.seq, done)

    def _retry(
        self, transaction: Transaction, job_id: str, owner: str | None, *, drop: bool
    ) -> bool:
        record = transaction.find(job_id, owner)
        if not isinstance(record, OutcomeRecord) or record.job is None:
            return False
        return transaction.jobs.lease_ends.end_dead(record.seq, drop=drop)


def _recall(transaction: Transaction, moves: list[_Move]) -> bool:
    """Ask workers for jobs that may have begun; return whether any may have."""
    return sum([transaction.jobs.recall(*move) for move in moves]) > 0


def _at(request: RescheduleJobs, dues: list[int]) -> RescheduleJobs:
    moves = [
        Reschedule(move.job_id, due_ms=due_ms)
        for move, due_ms in zip(request.moves, dues, strict=True)
    ]
    return RescheduleJobs(request.seq, moves)
