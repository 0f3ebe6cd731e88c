"""What waits at a server, and what has ended there and was not acknowledged.

Used by the store thread alone.
"""

from bisect import bisect_right
from collections.abc import Hashable

from purgatory.core._cpython.mypyc_types import i64
from purgatory.core.lifecycle import finish
from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import COMPLETED


class ClientRecord:
    """What a server knows of a client, by its name, while it has operations or connections."""

    __slots__ = ("_known", "connections", "count", "name", "unacknowledged")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count: i64 = 0  # operations that wait, and outcomes not acknowledged
        self.connections = 0
        self.unacknowledged: dict[int, OutcomeRecord] = {}  # by seq, in order
        self._known: list[int] = []  # seqs of a moment, to go on from in the middle

    def after(self, seq: int, limit: int) -> list[int]:
        """Seqs above ``seq``, in order, ``limit`` at most: of all unacknowledged outcomes.

        Some may have been acknowledged meanwhile.
        """
        if not self._known or self._known[-1] <= seq:
            self._known = []
            if not self.unacknowledged or next(reversed(self.unacknowledged)) <= seq:
                return []
            self._known = list(self.unacknowledged)
        start = bisect_right(self._known, seq)
        return self._known[start : start + limit]


class OutcomeRecord:
    """An outcome that its client has not acknowledged."""

    __slots__ = ("client", "ended_ms", "number", "op_id", "outcome", "seq")

    def __init__(
        self, seq: int, number: int, op_id: str, client: ClientRecord, outcome: str, ended_ms: int
    ) -> None:
        self.seq = seq
        self.number = number
        self.op_id = op_id
        self.client = client
        self.outcome = outcome
        self.ended_ms = ended_ms

    def at_ms(self, operation: "PendingOperation") -> int:
        """The moment that counts: its deadline if it expired, however late that was noticed."""
        return operation.due_ms if self.outcome == "expired" else self.ended_ms


class CompletionContext:
    """A completion on its way to the operations that watch its key."""

    __slots__ = ("at_ms", "progressed", "value")

    def __init__(
        self, value: bytes, at_ms: i64, progressed: list[tuple["PendingOperation", str]]
    ) -> None:
        self.value = value
        self.at_ms: i64 = at_ms
        self.progressed = progressed  # of operations that need several keys


class PendingOperation(DelayedOperation):
    """An operation that waits for ``need`` of its keys, until ``due_ms`` at the latest.

    All times are Unix milliseconds. It is in the wheel for one more: in the millisecond of its
    deadline it still completes.
    """

    __slots__ = (
        "by_key",
        "client",
        "due_ms",
        "has_payload",
        "keys",
        "kind",
        "need",
        "number",
        "op_id",
        "submitted_ms",
        "value",
        "values",
    )

    def __init__(
        self,
        number: i64,
        client: ClientRecord,
        op_id: str,
        kind: str,
        submitted_ms: i64,
        due_ms: i64,
        need: i64,
        has_payload: bool,
        now_ms: i64,
    ) -> None:
        wait_ms = due_ms + 1 - now_ms
        super().__init__(wait_ms / 1000 if wait_ms > 1 else 0.001)
        self._op_has_condition = False  # keys complete it, and nothing else: there is no condition
        self.number: i64 = number
        self.client = client
        self.op_id = op_id
        self.kind = kind
        self.submitted_ms: i64 = submitted_ms
        self.due_ms: i64 = due_ms
        self.need: i64 = need
        self.has_payload = has_payload
        self.keys: tuple[str, ...] = ()  # also when it has ended; set when it is watched
        self.by_key: str | None = None
        self.value: bytes | None = None  # of by_key
        self.values: dict[str, bytes] | None = None  # of all so far, if it needs several

    def copy_pending(self, now_ms: int) -> "PendingOperation":
        """One like it that has not ended."""
        twin = PendingOperation(
            self.number,
            self.client,
            self.op_id,
            self.kind,
            self.submitted_ms,
            self.due_ms,
            self.need,
            self.has_payload,
            now_ms,
        )
        twin.values = self.values
        return twin

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        """Count a key, unless the deadline is over: then it expires, as soon as we come to it."""
        assert isinstance(value, CompletionContext)
        assert isinstance(key, str)
        if value.at_ms > self.due_ms:
            return False
        if self.need > 1 and not self._count(key, value):
            return False
        self.by_key = key
        self.value = value.value
        return finish(self, COMPLETED)

    def _count(self, key: str, context: CompletionContext) -> bool:
        if self.values is None:
            self.values = {}
        if key in self.values:
            return False
        self.values[key] = context.value
        context.progressed.append((self, key))
        return len(self.values) >= self.need
