"""UnsentCalls: the calls of a session that wait to be sent; Resending: those sent again.

Used with the `Turn`.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from purgatory.service.client.calls import CALLS_PER_MESSAGE, Call, CallBatch, RequestType
from purgatory.service.encoding import NOT_A_MESSAGE
from purgatory.service.errors import TooLarge
from purgatory.service.verbs import VERBS


class UnsentCalls:
    """Batches in order; all are full but the last of each run of one kind."""

    def __init__(self) -> None:
        self.batches: deque[CallBatch] = deque()
        #: How many calls there are.
        self.count: int = 0

    @property
    def may_gather(self) -> bool:
        """Whether the next message may get further calls."""
        if len(self.batches) != 1:
            return False
        batch = self.batches[0]
        return VERBS[batch.request].is_batch and len(batch.calls) < CALLS_PER_MESSAGE

    def recount(self) -> None:
        """Count anew, perhaps after an interrupt."""
        self.count = sum([len(batch.calls) for batch in self.batches])

    def add(self, request: RequestType, calls: Sequence[Call]) -> None:
        """Add calls of one kind at the end."""
        self.count += len(calls)
        limit = CALLS_PER_MESSAGE if VERBS[request].is_batch else 1
        start = 0
        if self.batches and self.batches[-1].request is request:
            last = self.batches[-1].calls
            start = limit - len(last)
            last += calls[:start]
        for first in range(start, len(calls), limit):
            self.batches.append(CallBatch(request, list(calls[first : first + limit])))

    def put_first(self, batch: CallBatch) -> None:
        """Add a batch to be sent next."""
        self.count += len(batch.calls)
        self.batches.appendleft(batch)

    def take(self) -> CallBatch:
        """Remove the next batch."""
        batch = self.batches.popleft()
        self.count -= len(batch.calls)
        return batch

    def take_all(self) -> list[CallBatch]:
        """Remove all batches."""
        batches = list(self.batches)
        self.batches.clear()
        self.count = 0
        return batches

    def split(self, batch: CallBatch, count: int) -> CallBatch:
        """Return the first `count` calls of a batch; the rest come next."""
        if len(batch.calls) > count:
            self.put_first(CallBatch(batch.request, batch.calls[count:]))
            batch = CallBatch(batch.request, batch.calls[:count])
        return batch

    def fitting(
        self, batch: CallBatch, seq: int, most_items: int, most_bytes: int
    ) -> tuple[CallBatch, bytes, Exception | None]:
        """Return the first calls that fit into a message, and the message or error."""
        batch = self.split(batch, most_items)
        frame, error = _encoded(batch, seq, most_bytes)
        while error is not None and len(batch.calls) > 1:
            batch = self.split(batch, len(batch.calls) // 2)
            frame, error = _encoded(batch, seq, most_bytes)
        return batch, frame, error


def _encoded(batch: CallBatch, seq: int, most_bytes: int) -> tuple[bytes, Exception | None]:
    try:
        frame = batch.encode(seq)
    except NOT_A_MESSAGE as error:  # a call's value cannot be encoded
        return b"", error
    if len(frame) <= most_bytes:
        return frame, None
    return frame, TooLarge(f"message of {len(frame)} bytes; expected at most {most_bytes}")


#: Most sendings of a message without an answer.
MAX_SENDINGS: Final = 5
# Losses after which each message is sent alone.
_ALONE_AFTER: Final = 2


class Resending:
    """Says which unanswered messages are sent again on a new connection.

    `unanswered`: messages with their calls, by sequence number, in order. After repeated losses the
    client sends one message at a time, to find a message that crashes the server.
    """

    def __init__(self, unanswered: dict[int, tuple[bytes, CallBatch]]) -> None:
        self._unanswered = unanswered
        # Lost connections, by sequence number.
        self._losses: dict[int, int] = {}
        self._waiting: deque[int] = deque()  # to be sent alone
        self._alone = 0  # the last one sent alone

    @property
    def is_under_way(self) -> bool:
        """Whether messages are sent one by one; new messages wait."""
        return bool(self._waiting) or self._alone in self._unanswered

    def take_abandoned(self) -> list[CallBatch]:
        """Note a lost connection; remove and return calls that are not sent again."""
        waiting, before, self._losses = set(self._waiting), self._losses, {}
        for seq in self._unanswered:
            self._losses[seq] = before.get(seq, 0) + (0 if seq in waiting else 1)
        abandoned = [seq for seq, count in self._losses.items() if count >= MAX_SENDINGS]
        return [self._unanswered.pop(seq)[1] for seq in abandoned]

    def begin(self) -> list[bytes]:
        """Return the first messages for a new connection: all, or the first alone."""
        self._waiting.clear()
        self._alone = 0
        if all(self._losses.get(seq, 0) < _ALONE_AFTER for seq in self._unanswered):
            return [frame for frame, _ in self._unanswered.values()]
        self._waiting.extend(self._unanswered)
        return self.next()

    def next(self) -> list[bytes]:
        """Return the next message, once the one before is answered."""
        while self._waiting and self._alone not in self._unanswered:
            self._alone = self._waiting.popleft()
            if self._alone in self._unanswered:
                return [self._unanswered[self._alone][0]]
        return []
