"""RequestValidator: what a server takes, and the typed error for what it does not.

Immutable; any thread may use it, and both sides do: a client refuses at once what its server would.
"""

from collections.abc import Iterable

from msgspec import Raw

from purgatory.core._cpython.mypyc_types import i64
from purgatory.service.errors import (
    Malformed,
    OperationIdTaken,
    Refused,
    TimeoutTooLong,
    TooLarge,
    TooManyKeys,
    TooManyPending,
)
from purgatory.service.protocol import Completion, Limits, Submission
from purgatory.service.server.operation import ClientRecord

#: The fields of a `Submission`, had at once: each look at one of them is a call.
Values = tuple[str, tuple[str, ...], int, int, str, Raw]


class RequestValidator:
    """Compares with ``limits``. Methods that are hot return the error instead of raising it."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        # Once more, at hand; no character has more than four bytes.
        self._pending_of_one: i64 = limits.pending_per_client
        self._pending: i64 = limits.pending
        self._timeout_ms = limits.timeout_ms  # what is compared with it may be beyond 64 bits
        self._payload_bytes: i64 = limits.payload_bytes
        self._short: i64 = limits.text_bytes // 4

    def submission(
        self,
        submission: Submission,
        values: Values,
        client: ClientRecord,
        total: i64,
        before: object,
    ) -> Refused | None:
        """Why an operation cannot wait for a client, when there are ``total`` of all clients."""
        op_id, keys, timeout_ms, need, kind, payload = values
        # Nearly all are like this: one key, nothing large, room enough.
        if (
            before is None
            and client.count < self._pending_of_one
            and total < self._pending
            and 0 <= timeout_ms <= self._timeout_ms
            and need == 1
            and len(payload) <= self._payload_bytes
            and len(keys) == 1
            and 0 < len(keys[0]) <= self._short
            and 0 < len(op_id) <= self._short
            and len(kind) <= self._short
        ):
            return None
        return self._refusal(submission, client, total, before)

    def _refusal(
        self, submission: Submission, client: ClientRecord, total: int, before: object
    ) -> Refused | None:
        limits = self.limits
        if before is not None:
            return OperationIdTaken(
                f"operation id {_shown(submission.op_id)} belongs to another client"
            )
        if client.count >= limits.pending_per_client:
            return TooManyPending(
                f"client {client.name!r} has {client.count} operations and unacknowledged "
                f"outcomes; expected at most {limits.pending_per_client}"
            )
        if total >= limits.pending:
            return TooManyPending(f"the server has {total} operations, as many as it takes")
        if not 0 <= submission.timeout_ms <= limits.timeout_ms:
            return self._time(submission.timeout_ms)
        if len(submission.payload) > limits.payload_bytes:
            return TooLarge(
                f"payload of {len(submission.payload)} bytes; "
                f"expected at most {limits.payload_bytes}"
            )
        return self._keys(submission) or self._names(submission)

    def _time(self, timeout_ms: int) -> Refused:
        if timeout_ms < 0:
            return Malformed(f"timeout_ms is {timeout_ms}; expected 0 or more")
        return TimeoutTooLong(
            f"timeout_ms is {timeout_ms}; expected at most {self.limits.timeout_ms}"
        )

    def _keys(self, submission: Submission) -> Refused | None:
        keys = submission.keys
        if len(keys) > self.limits.keys:
            return TooManyKeys(f"{len(keys)} keys; expected at most {self.limits.keys}")
        distinct = len(set(keys))
        if not 1 <= submission.need <= distinct:
            return Malformed(
                f"need is {submission.need}; expected 1 to {distinct}, the distinct keys"
            )
        return None

    def _names(self, submission: Submission) -> Refused | None:
        texts = (submission.op_id, *submission.keys)
        return self.texts(texts) or self.text(submission.kind, empty=True)

    def message(self, frame: bytes) -> None:
        """Raise TooLarge for a message that is."""
        most = self.limits.message_bytes
        if len(frame) > most:
            raise TooLarge(f"message of {len(frame)} bytes; expected at most {most}")

    def completion(self, completion: Completion) -> Refused | None:
        """Why a key cannot be completed so."""
        size = len(completion.value)
        if size > self.limits.payload_bytes:
            return TooLarge(f"value of {size} bytes; expected at most {self.limits.payload_bytes}")
        return self.text(completion.key)

    def texts(self, texts: Iterable[str]) -> Refused | None:
        """Why one of these is no id or key."""
        for text in texts:
            if (refusal := self.text(text)) is not None:
                return refusal
        return None

    def text(self, text: str, *, empty: bool = False) -> Refused | None:
        """Why a text is no id, key or name; ``empty``: whether it may be."""
        most = self.limits.text_bytes
        if not text and not empty:
            return Malformed("an id, key or name is empty; expected a text")
        if len(text) > most or (not text.isascii() and len(text.encode()) > most):
            return TooLarge(f"{_shown(text)} has more than {most} bytes")
        return None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 50 else text[:47] + "...")
