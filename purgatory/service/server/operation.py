"""PendingOperation: waits at a server for its keys, until its deadline.

Used by the store thread alone.
"""

from collections.abc import Hashable

from msgspec import Raw

from purgatory.core._cpython.mypyc_types import i64
from purgatory.core.lifecycle import finish
from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import COMPLETED
from purgatory.service.protocol import NOTHING, encode
from purgatory.service.server.clients import ClientRecord


class CompletionContext:
    """A completion on its way to the operations that watch its key."""

    __slots__ = ("at_ms", "progressed", "value")

    def __init__(
        self, value: bytes, at_ms: i64, progressed: list[tuple["PendingOperation", str]]
    ) -> None:
        self.value = value
        self.at_ms: i64 = at_ms
        self.progressed = progressed  # gets each operation of several keys that counted this one


class PendingOperation(DelayedOperation):
    """An operation that waits for `need` of its keys, until `due_ms` at the latest.

    All times are Unix milliseconds. Its timer runs one millisecond longer: in the millisecond of
    its deadline the operation still completes.
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
        self._op_has_condition = False  # only its keys complete it
        self.number: i64 = number
        self.client = client
        self.op_id = op_id
        self.kind = kind
        self.submitted_ms: i64 = submitted_ms
        self.due_ms: i64 = due_ms
        self.need: i64 = need
        self.has_payload = has_payload
        self.keys: tuple[str, ...] = ()  # set when it is watched, and kept when it has ended
        self.by_key: str | None = None
        self.value: bytes | None = None  # of `by_key`
        self.values: dict[str, bytes] | None = None  # key -> value so far, if it needs several

    def copy_pending(self, now_ms: int) -> "PendingOperation":
        """Return a copy that has not ended, with the progress of this one."""
        copy = PendingOperation(
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
        copy.values = self.values
        return copy

    def result(self) -> bytes | None:
        """Return the value as MessagePack; a map of key -> value if several keys were needed."""
        if self.by_key is None:
            return None
        if self.need > 1:
            values = self.values or {}
            return encode({key: Raw(value) for key, value in values.items()})
        return None if self.value == NOTHING else self.value

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        """Count a key, and complete if it was the last one needed.

        After the deadline a key does not count: the operation expires, however late.
        """
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
        """Count one of several keys; True if there are enough now."""
        if self.values is None:
            self.values = {}
        if key in self.values:
            return False
        self.values[key] = context.value
        context.progressed.append((self, key))
        return len(self.values) >= self.need
