"""CallGroup: calls of one kind that one message makes, and what its answer says to each."""

from collections.abc import Sequence
from typing import Any, Final

from purgatory.service import protocol
from purgatory.service.client.batcher import CALLS_PER_MESSAGE, Call, RequestType
from purgatory.service.client.future_results import resolve
from purgatory.service.client.trace_context import unwrap
from purgatory.service.job_messages import (
    DeadEnded,
    DeadJobs,
    EndDead,
    Finish,
    Finished,
    Keep,
    Kept,
    ReadDead,
    Work,
    Working,
)
from purgatory.service.protocol import (
    Acknowledge,
    Complete,
    Extend,
    Fail,
    ReadOperations,
    Stats,
    Unread,
    encode,
)

#: Requests of which each call is a message of its own.
_ONE_CALL: Final = (Stats, Unread, Acknowledge, Work, ReadDead, EndDead, ReadOperations)
#: Requests that a server of version 1 does not know.
_OF_VERSION_2: Final = (
    Extend,
    Fail,
    Unread,
    Acknowledge,
    Work,
    Keep,
    Finish,
    ReadDead,
    EndDead,
    ReadOperations,
)


def calls_per_message(request: RequestType) -> int:
    """Return how many calls of a kind one message can make, at most."""
    return 1 if request in _ONE_CALL else CALLS_PER_MESSAGE


class CallGroup:
    """Calls of one kind, for one message."""

    __slots__ = ("calls", "request")

    def __init__(self, request: RequestType, calls: list[Call]) -> None:
        self.request: RequestType = request
        self.calls: list[Call] = calls

    def encode(self, seq: int) -> bytes:
        """Return the message that makes all of the calls."""
        request: Any = self.request
        items = [item for item, _ in self.calls]
        if request is Stats:
            return encode(Stats(seq))
        if request is Unread:
            return encode(Unread(seq, items[0]))
        if request is Acknowledge:
            return encode(Acknowledge(seq, items[0], answer=True))
        if request in (Work, EndDead, ReadOperations):
            return encode(request(seq, *items[0]))
        if request is ReadDead:
            return encode(ReadDead(seq, items[0]))
        return encode(request(seq, items))

    def take_unknown(self) -> list[Call]:
        """Remove and return the calls that a server of version 1 of the protocol does not know."""
        unknown = [call for call in self.calls if not _is_of_version_1(self.request, call)]
        if unknown:
            self.calls = [call for call in self.calls if _is_of_version_1(self.request, call)]
        return unknown

    @property
    def is_of_version_1(self) -> bool:
        """Whether a server of version 1 of the protocol knows all of the calls."""
        return all(_is_of_version_1(self.request, call) for call in self.calls)

    @property
    def is_observed(self) -> bool:
        """Whether a caller waits for any of the calls, or has callbacks added to one."""
        return any(future._observed for _, future in self.calls)

    def resolve(self, answer: Any) -> None:
        """Give each call what the answer says to it; all answers but that to submissions."""
        for (_, future), result in zip(self.calls, _results(answer), strict=True):
            resolve(future, result)


def _is_of_version_1(request: RequestType, call: Call) -> bool:
    if request is Complete:
        completion = call[0]
        return completion.limit is None and not completion.hold_ms
    return request not in _OF_VERSION_2


def _results(answer: Any) -> Sequence[Any]:
    """Return the results in an answer, in the order of the calls."""
    if isinstance(answer, (protocol.Completed, protocol.Failed)):
        return answer.counts
    if isinstance(answer, (protocol.Cancelled, protocol.Extended, Kept, Finished)):
        return answer.done
    if isinstance(answer, protocol.States):
        return _as_values(answer.states)
    if isinstance(answer, Working):
        return [None]
    return [_only_result(answer)]


def _only_result(answer: Any) -> Any:
    """Return the result of a request of which each call is a message of its own."""
    if isinstance(answer, protocol.StatsReply):
        return answer.figures
    if isinstance(answer, protocol.Acknowledged):
        return answer.count
    if isinstance(answer, DeadEnded):
        return sum(answer.done)
    if isinstance(answer, DeadJobs):
        return _payloads_as_values(answer.jobs)
    if isinstance(answer, protocol.Operations):
        _as_values(answer.states)
        return answer
    return _as_values(answer.outcomes)


def _payloads_as_values(jobs: list[Any]) -> list[Any]:
    """Return jobs with their payloads alone, decoded."""
    for job in jobs:
        if len(job.payload) > 1:
            job.payload = unwrap(job.payload)[1]
        job.payload = protocol.unpack_or_raw(job.payload)
    return jobs


def _as_values(messages: list[Any]) -> list[Any]:
    """Return outcomes or states with their payloads alone, decoded as the results are."""
    for message in messages:
        if len(message.payload) > 1:
            message.payload = unwrap(message.payload)[1]
        protocol.unpack_values(message)
    return messages
