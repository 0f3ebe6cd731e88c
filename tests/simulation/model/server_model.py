"""ServerModel: what a server has to answer, and how each operation has to end.

It takes the server's requests in the server's order, at the server's clock, and knows nothing of
wheels, batches, portions or disks. What a transaction changes can be taken back until the next one
begins: after a failed commit at once, and after a commit of which nobody knows, when the next
process shows what is on disk.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, NamedTuple

import msgspec

from purgatory.service.encoding import encode
from purgatory.service.job_messages import RetryJobs
from purgatory.service.protocol import (
    MADE_UP,
    Acknowledge,
    Acknowledged,
    Cancel,
    Cancelled,
    Complete,
    Completed,
    Extend,
    Extended,
    Fail,
    Failed,
    Finish,
    Known,
    Refusal,
    Submission,
    Submit,
    Submitted,
    TimeoutExtension,
)
from tests.simulation.model.model_events import ModelEvents
from tests.simulation.model.model_leases import ModelLeases
from tests.simulation.model.model_operation import TICK_NS, End, ModelOperation
from tests.simulation.model.model_stamp import ModelStamp
from tests.simulation.model.undo import Undo

_NS_PER_MS = 1_000_000
#: Replies remembered of a session: a client has no more unanswered requests.
_REPLIES = 32
#: And for how long after the last one, at least.
_SESSION_MS = 500_000
_MINUTE_NS = 60_000_000_000
# Answers to submissions are remembered apart.
_SUBMITS = "#submits"
_SUBMITTED = msgspec.msgpack.Decoder(Submitted)
#: The code with which the id of another client, or of the other kind, is refused.
_DUPLICATE = "duplicate"


class Reply(NamedTuple):
    """A remembered reply: its stamp and its frame."""

    at_ms: int
    frame: bytes


def last_ms(replies: dict[int, Reply]) -> int:
    """Return the stamp of the latest of some replies."""
    return max(reply.at_ms for reply in replies.values())


class ServerModel:
    """The operations of a server, as the requests so far have left them."""

    def __init__(self) -> None:
        self.undo = Undo()
        self.stamp = ModelStamp()
        self.leases = ModelLeases(self.undo)
        self.events = ModelEvents(self.stamp, self.undo, self.leases)
        self.known: dict[str, ModelOperation] = {}
        #: By client and number of the outcome.
        self.unacknowledged: dict[str, dict[int, ModelOperation]] = {}
        #: By client and session, then by number of the request, oldest first.
        self.replies: dict[tuple[str, str], dict[int, Reply]] = {}
        #: When each session had its last reply, by stamp; none of those that may be forgotten.
        self.replied_ms: dict[tuple[str, str], int] = {}
        #: Replies that this transaction has added.
        self.new_replies: set[tuple[str, str, int]] = set()
        #: By client and session, the requests whose answer may have come late.
        self.late: dict[tuple[str, str], set[int]] = {}
        self._clock_ns = 0
        self._places = 0
        self._given_ids = 0  # by callers, in the submission that came last
        self._due: list[tuple[int, int, ModelOperation]] = []  # a heap of ticks, places
        self.changes: dict[Any, Callable[[str, Any], Any]] = {
            Complete: self._complete,
            Fail: self._fail,
            Extend: self._extend_all,
            Cancel: self._cancel_all,
            Finish: lambda client, request: self.leases.finish(client, request, self.clock_ms),
            RetryJobs: self.leases.retry,
        }

    @property
    def clock_ms(self) -> int:
        """The millisecond of the transaction, by the server's clock."""
        return self._clock_ns // _NS_PER_MS

    # A transaction

    def begin(self, clock_ns: int) -> None:
        """Begin a transaction at a time of the server's clock; the last one is on disk."""
        self.undo.forget()
        self.new_replies.clear()
        self.leases.begin_transaction()
        if clock_ns // _MINUTE_NS != self._clock_ns // _MINUTE_NS:
            self._forget_sessions()
            self.events.release(self.stamp.now_ms)
        self._clock_ns = clock_ns
        self.stamp.follow(clock_ns // _NS_PER_MS)

    def take_back(self) -> None:
        """Take back what the transaction has changed: it is not on disk. Its stamps stay used."""
        self.undo.take_back()
        self.new_replies.clear()

    def plan(self, operation: ModelOperation) -> None:
        """Note when an operation is due."""
        heappush(self._due, (operation.due_ns, operation.place, operation))

    def _plan_again(self, operation: ModelOperation) -> None:
        """Note when an operation is due of which a commit has failed: not at this tick again."""
        operation.not_before_ns = (self._clock_ns // TICK_NS + 1) * TICK_NS
        self.plan(operation)

    def due(self) -> list[ModelOperation]:
        """Return the operations that are due and wait, in order of their ticks."""
        found: list[ModelOperation] = []
        while self._due and self._due[0][0] <= self._clock_ns:
            at_ns, _, operation = heappop(self._due)
            is_known = self.known.get(operation.op_id) is operation  # else it was taken back
            if is_known and operation.end is None and operation.due_ns == at_ns:
                found.append(operation)
        return found

    def expire(self, operation: ModelOperation) -> None:
        """End an operation whose deadline has passed."""
        self.undo.add(self._plan_again, operation)
        if operation.deadline_ms == self.stamp.now_ms:
            self.stamp.note_expiry(operation.keys)
        self.events.end(operation, End("expired", operation.deadline_ms, None, None))
        if operation.is_job:
            self.leases.expire(operation)

    def restart_clock(self) -> None:
        """Forget when operations are due: times may have been moved."""
        self._due.clear()

    # Requests

    def answer_once(self, client: str, session: str, request: Any) -> tuple[bytes, bool]:
        """Return the frame of an answer, and whether it was given before; else do the request."""
        seq = request.seq
        found = self.replies.get((client, session), {}).get(seq) if session else None
        if found is not None:
            return found.frame, (client, session, seq) not in self.new_replies
        frame = encode(self.changes[type(request)](client, request))
        if session:
            self.remember(client, session, seq, frame)
        return frame, False

    def remember(self, client: str, session: str, seq: int, frame: bytes) -> None:
        """Remember a reply, and forget the oldest of the session."""
        name = client, session
        replies = self.replies.setdefault(name, {})
        oldest = next(iter(replies.items())) if len(replies) == _REPLIES else None
        self.undo.add(self._take_back_reply, name, seq, oldest)
        if oldest is not None:
            del replies[oldest[0]]
        replies[seq] = Reply(self.stamp.now_ms, frame)
        self.replied_ms[name] = self.stamp.now_ms
        self.new_replies.add((client, session, seq))

    def _take_back_reply(
        self, name: tuple[str, str], seq: int, oldest: tuple[int, Reply] | None
    ) -> None:
        replies = self.replies[name]
        del replies[seq]
        if oldest is not None:
            self.replies[name] = dict([oldest, *replies.items()])
        elif not replies:
            del self.replies[name]

    def _forget_sessions(self) -> None:
        """Expect nothing of sessions whose last reply was long ago."""
        now_ms, before = self.stamp.now_ms, self.replied_ms
        self.replied_ms = {name: ms for name, ms in before.items() if now_ms - ms < _SESSION_MS}

    def _complete(self, _: str, request: Complete) -> Completed:
        return Completed(request.seq, [self.events.complete(one) for one in request.completions])

    def _fail(self, _: str, request: Fail) -> Failed:
        return Failed(request.seq, [self.events.fail(one) for one in request.failures])

    def _extend_all(self, _: str, request: Extend) -> Extended:
        return Extended(request.seq, [self._extend(one) for one in request.extensions])

    def _cancel_all(self, _: str, request: Cancel) -> Cancelled:
        return Cancelled(request.seq, [self._cancel(op_id) for op_id in request.op_ids])

    def _extend(self, extension: TimeoutExtension) -> bool:
        operation = self.known.get(extension.op_id)
        if operation is None or operation.end is not None:
            return False
        if self.stamp.now_ms > operation.deadline_ms:
            return False
        self.undo.add(self._plan_again, operation)
        self.undo.set(operation, "deadline_ns", self._deadline_ns(extension.timeout_ms))
        self.plan(operation)
        return True

    def _deadline_ns(self, timeout_ms: int) -> int:
        return max(self._clock_ns, self.stamp.now_ms * _NS_PER_MS) + timeout_ms * _NS_PER_MS

    def _cancel(self, op_id: str) -> bool:
        operation = self.known.get(op_id)
        if operation is None or operation.end is not None:
            return False
        if self.stamp.now_ms > operation.deadline_ms:
            return False
        self.events.end(operation, End("cancelled", self.stamp.now_ms, None, None))
        return True

    def submit(self, client: str, request: Submit, first: Submitted | None = None) -> Submitted:
        """Have operations wait; those that are known are answered with their states.

        `first`: the answer that the same request had before; it submits nothing a second time.
        """
        refused: list[Refusal] = []
        known: list[Known] = []
        self._given_ids = 0
        for index, submission in enumerate(request.operations):
            before = self.known.get(submission.op_id)
            is_here = before is not None and not before.is_dropped
            if before is not None and is_here and before.is_of(client, submission):
                known.append(Known(index, before.state))
            elif _was_taken(index, first):
                continue
            elif is_here:
                refused.append(Refusal(index, _DUPLICATE, ""))
            else:
                self._submit(client, submission)
        return _known_as_at_first(Submitted(request.seq, refused, known), first)

    def first_answer(self, client: str, session: str, seq: int) -> Submitted | None:
        """Return the answer that a `Submit` had before; None if it is not remembered."""
        found = self.replies.get((client, session + _SUBMITS), {}).get(seq)
        return None if found is None else _SUBMITTED.decode(found.frame)

    def submit_in(self, client: str, session: str, request: Submit) -> Submitted:
        """Do a `Submit`; sent again, it is told which operations were known when it came first."""
        first = self.first_answer(client, session, request.seq)
        reply = self.submit(client, request, first)
        key = (client, session + _SUBMITS)
        if first is None and session and (self._given_ids or reply.known):
            self.remember(*key, request.seq, encode(reply))
        return reply

    def _submit(self, client: str, submission: Submission) -> None:
        self._places += 1
        timeout_ms, options = submission.timeout_ms, submission.options
        if options is not None and options.due_ms is not None and not submission.need:
            timeout_ms = max(0, options.due_ms - self.stamp.now_ms)
        self._given_ids += options is not None and options.unique_ms != MADE_UP
        keys = tuple(dict.fromkeys(submission.keys))
        self.events.separate(keys)
        place, op_id = self._places, submission.op_id
        operation = ModelOperation(place, client, op_id, keys, submission.need)
        operation.kind = submission.kind
        operation.submitted_ms = self.stamp.now_ms
        operation.deadline_ns = self._deadline_ns(timeout_ms)
        self.undo.set_item(self.known, op_id, operation)
        self.events.watch(operation)
        self.plan(operation)
        self.events.count_held(operation)

    def refuse_submission(
        self, client: str, session: str, request: Submit, code: str, why: str
    ) -> Any:
        """Return the answer to a submission whose transaction was taken back; None: a failure."""
        refused: list[Refusal] = []
        known: list[Known] = []
        first = self.first_answer(client, session, request.seq)
        for index, submission in enumerate(request.operations):
            before = self.known.get(submission.op_id)
            if before is not None and before.is_of(client, submission) and not before.is_dropped:
                known.append(Known(index, before.state))
            elif not _was_taken(index, first):
                refused.append(Refusal(index, code, why))
        if len(refused) == len(request.operations):
            return None
        return _known_as_at_first(Submitted(request.seq, refused, known), first)

    def acknowledge(self, client: str, request: Acknowledge) -> Acknowledged:
        """Note that a client has outcomes. In memory only: after a crash they are sent again."""
        waiting = self.unacknowledged.get(client, {})
        found = [one for seq in request.outcomes if (one := waiting.pop(seq, None)) is not None]
        for operation in found:
            operation.is_acknowledged = True
        return Acknowledged(request.seq, len(found))

    def publish(self, operation: ModelOperation, seq: int) -> None:
        """Note the number that the server has given to an outcome which is on disk."""
        operation.seq = seq
        if not operation.is_job:
            self.unacknowledged.setdefault(operation.client, {})[seq] = operation


def _was_taken(index: int, first: Submitted | None) -> bool:
    """Whether an operation of a request was submitted, or known, when the request came first."""
    return first is not None and all(one.index != index for one in first.refused)


def _known_as_at_first(reply: Submitted, first: Submitted | None) -> Submitted:
    """Return a reply that names what was known when the request came first."""
    if first is not None:
        now = {one.index: one for one in reply.known}
        reply.known = [now.get(one.index, one) for one in first.known]
    return reply
