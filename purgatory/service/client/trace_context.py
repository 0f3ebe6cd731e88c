"""The trace context of an operation, carried around its payload. Any thread.

So a trace goes on in the process that gets the outcome. The server ignores the context.
"""

import re
from contextlib import AbstractContextManager
from typing import Final, Protocol

import msgspec
from msgspec import Raw

from purgatory.service.encoding import encode
from purgatory.service.protocol import LeasedJob, OutcomeMessage

# The MessagePack extension type, see docs/protocol.md.
_EXTENSION: Final = 84
# W3C Trace Context, version 00 and later.
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
# Of extensions of up to 255 bytes, 64 KiB, 4 GiB.
_FIRST_BYTES: Final = (b"\xc7", b"\xc8", b"\xc9")

# With this type a time is an extension, too: one before 1970 or after 2514 has such a first byte.
_decode: Final = msgspec.msgpack.Decoder(msgspec.msgpack.Ext).decode
_decode_pair: Final = msgspec.msgpack.Decoder(tuple[str, Raw]).decode


class OperationTracer(Protocol):
    """Traces operations and jobs, as `purgatory.service.tracing` does."""

    def traceparent(self) -> str:
        """Return the caller's context as a W3C `traceparent`, or an empty text."""

    def ended(self, outcome: OutcomeMessage, traceparent: str) -> AbstractContextManager[object]:
        """Record the end of an operation submitted in this context; the block is its callbacks.

        For the client's I/O thread.
        """

    def attempted(self, job: LeasedJob, traceparent: str) -> AbstractContextManager[object]:
        """Record an attempt at a job scheduled in this context; the block is its handler.

        For a thread of the worker, or its event loop.
        """


def wrap(traceparent: str, payload: Raw) -> Raw:
    """Return a payload with a context; unchanged if the context is empty."""
    if not traceparent:
        return payload
    return Raw(encode(msgspec.msgpack.Ext(_EXTENSION, encode((traceparent, payload)))))


def unwrap(payload: Raw) -> tuple[str, Raw]:
    """Undo `wrap`; the context is empty for a plain payload."""
    data = bytes(payload)
    if not data.startswith(_FIRST_BYTES):
        return "", payload
    try:
        extension = _decode(data)
        traceparent, inner = _decode_pair(extension.data)
    except msgspec.DecodeError:
        return "", payload
    if extension.code != _EXTENSION or not _TRACEPARENT.fullmatch(traceparent):
        return "", payload
    return traceparent, Raw(bytes(inner))
