"""UnsentCalls: the calls of a session that wait to be sent. Used with the session's `Turn`."""

from collections import deque
from collections.abc import Sequence

from purgatory.service.client.calls import CALLS_PER_MESSAGE, Call, CallBatch, RequestType
from purgatory.service.errors import TooLarge
from purgatory.service.verbs import VERBS


class UnsentCalls:
    """Batches in order; all of them are full but the last of each run of one kind."""

    def __init__(self) -> None:
        #: In order; empty if no call waits.
        self.batches: deque[CallBatch] = deque()
        #: How many calls there are.
        self.count: int = 0

    @property
    def may_gather(self) -> bool:
        """Whether the next message may get further calls: of several kinds only the last may."""
        if len(self.batches) != 1:
            return False
        batch = self.batches[0]
        return VERBS[batch.request].is_batch and len(batch.calls) < CALLS_PER_MESSAGE

    def recount(self) -> None:
        """Count anew, after an interrupt perhaps between a change and its count."""
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
        """Return the first `count` calls of a batch; the rest are sent next."""
        if len(batch.calls) > count:
            self.put_first(CallBatch(batch.request, batch.calls[count:]))
            batch = CallBatch(batch.request, batch.calls[:count])
        return batch

    def fitting(
        self, batch: CallBatch, seq: int, most_items: int, most_bytes: int
    ) -> tuple[CallBatch, bytes, Exception | None]:
        """Return the first calls that fit into a message, and the message, or why none does.

        The rest are sent next.
        """
        batch = self.split(batch, most_items)
        frame, error = _encoded(batch, seq, most_bytes)
        while error is not None and len(batch.calls) > 1:
            batch = self.split(batch, len(batch.calls) // 2)
            frame, error = _encoded(batch, seq, most_bytes)
        return batch, frame, error


def _encoded(batch: CallBatch, seq: int, most_bytes: int) -> tuple[bytes, Exception | None]:
    """Return the message of calls, or why they cannot be sent together."""
    try:
        frame = batch.encode(seq)
    except Exception as error:  # noqa: BLE001  # a value that has no form: of that call alone
        return b"", error
    if len(frame) <= most_bytes:
        return frame, None
    return frame, TooLarge(f"message of {len(frame)} bytes; expected at most {most_bytes}")
