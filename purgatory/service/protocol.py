"""The protocol: what clients and servers say to each other, as docs/protocol.md writes it down.

A message is one ZeroMQ frame of MessagePack: an array that begins with the message's number, then
the request's ``seq`` (the client's count, echoed by the answer), then the rest. Later versions may
add to the end of an array; what is not known there is passed over. All times are whole
milliseconds, Unix time where they name a moment. Values and payloads are MessagePack that the
server stores and hands on without looking inside.

Immutable values and functions; any thread may use them.
"""

from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from purgatory.service.errors import Malformed

VERSION: Final = 1

#: nil: no value, no payload.
NOTHING: Final = b"\xc0"


class Submission(Struct, array_like=True, gc=False):
    """An operation to wait: completed by ``need`` of its keys, or else expired."""

    op_id: str
    keys: tuple[str, ...]
    timeout_ms: int
    need: int = 1
    kind: str = ""
    payload: Raw = Raw(NOTHING)


class Completion(Struct, array_like=True, gc=False):
    """A key that is completed, with a value."""

    key: str
    value: Raw = Raw(NOTHING)


class Limits(Struct, array_like=True, frozen=True):
    """What a server takes at most; see `Config`."""

    message_bytes: int
    keys: int
    text_bytes: int
    payload_bytes: int
    pending_per_client: int
    pending: int
    timeout_ms: int


# Requests.


class Hello(Struct, array_like=True, tag=1):
    """Who is there; the first message of each connection."""

    seq: int
    version: int
    client: str


class Submit(Struct, array_like=True, tag=2):
    """Have operations wait. One whose id is known already is answered with its state."""

    seq: int
    operations: list[Submission]


class Complete(Struct, array_like=True, tag=3):
    """Complete keys, for all clients' operations."""

    seq: int
    completions: list[Completion]


class Cancel(Struct, array_like=True, tag=4):
    """Cancel operations."""

    seq: int
    op_ids: list[str]


class Query(Struct, array_like=True, tag=5):
    """Ask for the state of operations."""

    seq: int
    op_ids: list[str]


class Acknowledge(Struct, array_like=True, tag=6):
    """Outcomes that need not be told again; there is no answer."""

    seq: int
    outcomes: list[int]


class Stats(Struct, array_like=True, tag=7):
    """Ask for the server's figures."""

    seq: int


class Bye(Struct, array_like=True, tag=8):
    """The connection ends; there is no answer."""

    seq: int


Request = Hello | Submit | Complete | Cancel | Query | Acknowledge | Stats | Bye

# Replies.


class Welcome(Struct, array_like=True, tag=32):
    """To `Hello`."""

    seq: int
    version: int
    server: str
    limits: Limits


class Refusal(Struct, array_like=True):
    """One operation of a `Submit` that was not taken, by its place; see `Refused` for codes."""

    index: int
    code: str
    message: str


class Known(Struct, array_like=True):
    """One operation of a `Submit` that the server has already: by its place, and its state."""

    index: int
    state: str


class Submitted(Struct, array_like=True, tag=33):
    """To `Submit`: all that is not listed is taken, and on disk."""

    seq: int
    refused: list[Refusal] = []
    known: list[Known] = []


class Completed(Struct, array_like=True, tag=34):
    """To `Complete`: how many operations each key completed, and on disk."""

    seq: int
    counts: list[int]


class Cancelled(Struct, array_like=True, tag=35):
    """To `Cancel`: whether this cancelled it; False if it has ended, or is not known."""

    seq: int
    done: list[bool]


class OperationState(Struct, array_like=True):
    """What is known of an operation. ``state``: pending, completed, expired, cancelled, unknown."""

    op_id: str
    state: str
    kind: str = ""
    client: str = ""
    keys: list[str] = []
    need: int = 1
    submitted_ms: int = 0
    deadline_ms: int = 0
    at_ms: int | None = None
    by_key: str | None = None
    keys_done: list[str] = []


class States(Struct, array_like=True, tag=36):
    """To `Query`."""

    seq: int
    states: list[OperationState]


class StatsReply(Struct, array_like=True, tag=37):
    """To `Stats`: name -> number."""

    seq: int
    figures: dict[str, int | float]


class Failure(Struct, array_like=True, tag=38):
    """To any request: it was not done. ``seq`` is nil if the request could not be read."""

    seq: int | None
    code: str
    message: str


# Told without being asked.


class OutcomeMessage(Struct, array_like=True, gc=False):
    """How an operation ended. ``number`` is what `Acknowledge` names, the same each time.

    ``result``: the value of ``by_key`` or, with need above 1, a map of key -> value.
    """

    number: int
    op_id: str
    outcome: str
    at_ms: int
    by_key: str | None = None
    result: Raw = Raw(NOTHING)
    kind: str = ""
    submitted_ms: int = 0
    deadline_ms: int = 0
    payload: Raw = Raw(NOTHING)


class Outcomes(Struct, array_like=True, tag=64):
    """Outcomes of the client's operations, until acknowledged: on each new connection again."""

    outcomes: list[OutcomeMessage]


class Ping(Struct, array_like=True, tag=65):
    """Nothing; sent to see whether the connection is still there."""


Answer = (
    Welcome | Submitted | Completed | Cancelled | States | StatsReply | Failure | Outcomes | Ping
)

_M = TypeVar("_M")

encode: Final = msgspec.msgpack.Encoder().encode
_requests: "Final[msgspec.msgpack.Decoder[Request]]" = msgspec.msgpack.Decoder(Request)
_lists: Final = msgspec.msgpack.Decoder(list[Raw])
_ints: Final = msgspec.msgpack.Decoder(int)
_answers: "Final[msgspec.msgpack.Decoder[Answer]]" = msgspec.msgpack.Decoder(Answer)


def decode_request(frame: bytes) -> Request:
    """What a client says; Malformed for anything else."""
    return _decode(_requests, frame)


def seq_of(frame: bytes) -> int | None:
    """The ``seq`` of a message that is Malformed, if it can be found."""
    try:
        _, seq, *_ = _lists.decode(frame)
        return _ints.decode(seq)
    except (
        ValueError,
        TypeError,
        RecursionError,
        OverflowError,
    ):  # msgspec's errors are ValueErrors
        return None


def decode_answer(frame: bytes) -> Answer:
    """What a server says; Malformed for anything else."""
    return _decode(_answers, frame)


def _decode(decoder: "msgspec.msgpack.Decoder[_M]", frame: bytes) -> _M:
    try:
        return decoder.decode(frame)
    # msgspec's errors are ValueErrors; so are texts that are not UTF-8. Arrays may never end.
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise Malformed(f"not a message of protocol {VERSION}: {error}") from error


def pack(value: Any) -> bytes:
    """A user's value as MessagePack. Raises TypeError for what has no such form."""
    try:
        return encode(value)
    except (OverflowError, RecursionError) as error:
        raise TypeError(f"value cannot be sent: {error}") from error


def unpack(raw: Raw | bytes) -> Any:
    """A user's value; Malformed for what is no MessagePack."""
    try:
        return msgspec.msgpack.decode(raw)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise Malformed(f"not a value: {error}") from error
