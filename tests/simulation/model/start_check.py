"""StartCheck: compares what a server has found on disk at its start with the model.

If nobody knows whether the last commit of the run before is on disk, the model has two branches:
the loaded state tells which of them it was. It must be one of them, whole.
"""

from typing import Any

import msgspec

from purgatory.service.server.clock import NS_PER_MS
from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.job_record import READY
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.server.state import ServerState
from tests.simulation.model.model_leases import ModelJob
from tests.simulation.model.model_operation import HeldEvent, ModelOperation, is_answer
from tests.simulation.model.server_model import Reply, ServerModel, last_ms

_FRAME = msgspec.msgpack.Decoder(list[Any])
# The replies of a session are remembered for ten minutes after the last one.
_RECENT_MS = 200_000


class StartCheck:
    """Compares `state`, which a server has just loaded, with a model.

    `ended_at_start`: operations that the start has ended since.
    """

    def __init__(self, model: ServerModel, state: ServerState, ended_at_start: set[str]) -> None:
        self._model = model
        self._state = state
        self._ended_at_start = ended_at_start
        self._shift_ms: int | None = None  # by which times were moved, if that is known

    def find_branch(self, *, is_in_doubt: bool) -> str:
        """Bring the model to the branch that is on disk; returns why none is, or nothing."""
        difference = self._difference()
        if difference and is_in_doubt:
            self._model.take_back()
            other = self._difference()
            difference = other and f"{difference}; or without the last commit: {other}"
        self._model.undo.forget()
        if not difference:
            self._follow()
        return difference

    def _difference(self) -> str:
        """Return the first difference; empty if there is none."""
        self._shift_ms = None
        self._model.events.release(self._model.stamp.now_ms)
        known = self._model.known
        for op_id, entry in self._state.known.items():
            operation = known.get(op_id)
            if operation is None:
                return f"{op_id} is there; expected nothing of it"
            if isinstance(entry, OutcomeRecord):
                is_same = _has_ended(operation, entry)
            else:
                is_same = self._is_left(entry) or self._is_pending(operation, entry)
            if not is_same:
                return f"{op_id} is {_text(entry)}; expected {operation}"
        for op_id in known.keys() - self._state.known.keys():
            if not known[op_id].is_acknowledged and not known[op_id].is_job:
                return f"is not there: {known[op_id]}"
        differences = self._held_difference, self._reply_difference, self._job_difference
        return next((why for find in differences if (why := find())), "")

    def _is_left(self, entry: PendingOperation) -> bool:
        """Whether an unfinished event is for an operation: the disk was full at the start."""
        return any(spread.is_for(entry) for spread in self._state.spreads.watched_by(entry))

    def _is_pending(self, operation: ModelOperation, entry: PendingOperation) -> bool:
        """Whether an operation waits as it should: for the same keys, with the same progress."""
        return (
            operation.end is None
            and operation.client == entry.client.name
            and set(operation.keys) == set(entry.keys)
            and operation.need == entry.need
            and operation.values == (entry.values or {})
            and self._is_moved(entry.op_deadline_ms - operation.deadline_ms)
            and self._is_moved(entry.submitted_ms - operation.submitted_ms)
        )

    def _is_moved(self, by_ms: int) -> bool:
        """Whether a time was moved by as much as all others."""
        if self._shift_ms is None:
            self._shift_ms = by_ms
        return self._shift_ms == by_ms

    def _held_difference(self) -> str:
        found, events = self._state.held.by_key, self._model.events
        for key, event in found.items():
            expected = events.held.get(key) or events.released.get(key)
            is_same = expected is not None and (
                (event.units, bytes(event.value)) == expected[3:]
                and self._is_moved(event.until_ms - expected.until_ms)
            )
            if not is_same:
                return f"for {key} is held {event}; expected {expected}"
        missing = events.held.keys() - found.keys()
        return "".join(f"for {key} is nothing held; expected {events.held[key]}" for key in missing)

    def _reply_difference(self) -> str:
        replies = self._state.replies
        for (client, session), expected in self._model.replies.items():
            key = replies.key(client, session)
            frames = {
                seq: reply.frame
                for seq, reply in expected.items()
                if (key, seq) not in self._state.spread_requests  # answered at its end
            }
            if not frames:
                continue
            found = {seq: replies.find(key, seq) for seq in frames}
            missing = [seq for seq, frame in found.items() if frame is None]
            is_same = all(_is_reply(frames[seq], found[seq]) for seq in frames.keys() - missing)
            is_same = is_same and len(missing) <= self._late_replies(key, (client, session))
            if not is_same and (any(found.values()) or self._is_recent(client, session)):
                return f"replies of session {session} are {found}; expected {frames}"
            if not is_same or (client, session) in self._model.late:
                continue
            if not self._is_moved(replies._sessions[key].at_ms - last_ms(expected)):
                return f"the last reply of session {session} has another stamp"
        return ""

    def _late_replies(self, key: str, session: tuple[str, str]) -> int:
        """Return how many late replies the server has that the model has forgotten.

        The server has them instead of older ones: the model remembers an answer at its request.
        """
        late = self._model.late.get(session, set()) - self._model.replies[session].keys()
        return sum(self._state.replies.find(key, seq) is not None for seq in late)

    def _is_recent(self, client: str, session: str) -> bool:
        """Whether a session has had a reply lately, however the clock was set."""
        at_ms = self._model.replied_ms.get((client, session))
        if at_ms is None or self._shift_ms is None:
            return False
        return self._state.stamp.now_ms - at_ms - self._shift_ms < _RECENT_MS

    def _job_difference(self) -> str:
        found = {job.record.op_id: job for job in self._state.leases.by_number.values()}
        expected = self._model.leases.jobs
        for op_id, job in found.items():
            if op_id not in expected or not self._is_same_job(expected[op_id], job):
                text = f"attempts={job.attempts} at={job.at_ms} {job.state}"
                return f"job {op_id} has {text}; expected {expected.get(op_id)}"
        missing = [
            op_id for op_id in expected.keys() - found.keys() if not expected[op_id].is_cancelled
        ]
        return "".join(f"is not there: {expected[op_id]}" for op_id in missing)

    def _is_same_job(self, expected: ModelJob, job: DueJob) -> bool:
        """Whether a job has had as many attempts, and waits as long."""
        if expected.is_cancelled:  # its lease has ended with the process
            return False
        if expected.may_be_lost:
            return job.attempts - expected.attempts in (0, 1)
        if (expected.attempts, expected.is_dead) != (job.attempts, job.is_dead):
            return False
        if expected.is_dead or not expected.stored_at_ms:
            return not job.at_ms
        if job.state == READY:  # the start ended an unfinished event, in transactions
            return expected.stored_at_ms + (self._shift_ms or 0) <= self._state.stamp.now_ms
        return self._is_moved(job.at_ms - expected.stored_at_ms)

    def _follow_jobs(self) -> None:
        leases, by_ms = self._model.leases, self._shift_ms or 0
        stored = {op_id: job.stored_at_ms for op_id, job in leases.jobs.items()}
        leases.restart()
        for due in self._state.leases.by_number.values():
            op_id = due.record.op_id
            job = leases.add(self._model.known[op_id], due.attempts)
            job.at_ms, job.is_dead = due.at_ms, due.is_dead
            job.stored_at_ms = due.at_ms
            if stored.get(op_id) and due.state == READY:  # see `_is_same_job`
                job.stored_at_ms = stored[op_id] + by_ms

    def _follow_replies(self) -> None:
        """Forget what is not on disk: old replies, and those of a commit that was in doubt.

        Read from disk they are in the order of their stamps and numbers, and forgotten in that.
        """
        moved_ms, replies = self._shift_ms or 0, self._state.replies
        before, self._model.replies = self._model.replies, {}
        for name, one in before.items():
            key = replies.key(*name)
            rows = sorted(
                (reply.at_ms + moved_ms, seq, reply.frame)
                for seq, reply in one.items()
                if replies.find(key, seq) is not None or (key, seq) in self._state.spread_requests
            )
            if rows:
                kept = {seq: Reply(at_ms, frame) for at_ms, seq, frame in rows}
                self._model.replies[name] = kept

    def _move_ends(self) -> None:
        """Move the times of what the start has ended, or will end, also of a commit in doubt."""
        by_ms = self._shift_ms or 0
        for op_id in self._ended_at_start | self._model.events.unpublished.keys():
            operation = self._model.known.get(op_id)
            if operation is not None and operation.end is not None:
                operation.end = operation.end._replace(at_ms=operation.end.at_ms + by_ms)
                operation.submitted_ms += by_ms
                operation.deadline_ns += by_ms * NS_PER_MS

    def _follow(self) -> None:
        """Take over what the start has changed: times, stamps, numbers, and what is deleted."""
        model, state = self._model, self._state
        model.known = {op_id: model.known[op_id] for op_id in state.known}
        model.stamp.restart(state.stamp.now_ms)
        model.unacknowledged.clear()
        model.events.unpublished = {
            op_id: model.known[op_id]
            for op_id, entry in state.known.items()
            if isinstance(entry, PendingOperation) and model.known[op_id].end is not None
        }
        self._move_ends()
        model.restart_clock()
        for entry in state.known.values():
            operation = model.known[entry.op_id]
            if isinstance(entry, OutcomeRecord):
                operation.seq = entry.seq
                if entry.seq in entry.client.unacknowledged:
                    model.publish(operation, entry.seq)
            else:
                operation.submitted_ms = entry.submitted_ms
                operation.deadline_ns = (entry.op_deadline_ms + 1) * NS_PER_MS - 1
                operation.not_before_ns = 0  # the new process has a clock of its own
                if operation.end is None:
                    model.plan(operation)
        self._follow_jobs()
        self._follow_replies()
        replied_ms, by_ms = model.replied_ms, self._shift_ms
        model.replied_ms = {} if by_ms is None else {k: ms + by_ms for k, ms in replied_ms.items()}
        model.events.held = {
            key: HeldEvent(event.number, event.at_ms, event.until_ms, event.units, event.value)
            for key, event in state.held.by_key.items()
        }


def _has_ended(operation: ModelOperation, entry: OutcomeRecord) -> bool:
    """Whether an outcome is the right one; it is sent again unless it was acknowledged."""
    is_told = operation.is_acknowledged or operation.is_job
    return (
        operation.end is not None
        and operation.end.outcome == entry.outcome
        and (is_told or entry.seq in entry.client.unacknowledged)
    )


def _text(entry: PendingOperation | OutcomeRecord) -> str:
    if isinstance(entry, OutcomeRecord):
        return f"ended, {entry.outcome}"
    return (
        f"pending until {entry.op_deadline_ms}, needs {entry.need} of {entry.keys}, "
        f"has {entry.values}"
    )


def _is_reply(expected: bytes, found: bytes | None) -> bool:
    """Whether a remembered reply is the right one."""
    return found == expected or (
        found is not None and is_answer(_FRAME.decode(expected), _FRAME.decode(found))
    )
