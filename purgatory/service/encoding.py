"""Encoding of messages and of programs' values.

`type_of`, `seq_of` and `count_items` read the beginning of a message alone: an array of its type,
in most also `seq`, and in requests a list. Any thread.
"""

from collections.abc import Callable
from typing import Any, Final, Union

import msgspec
from msgspec import Raw

from purgatory.service.errors import Malformed, TooLarge
from purgatory.service.job_messages import Begin, CancelLeases, JobEnds, JobStatus, LeaseReady
from purgatory.service.nesting import MAX_LEVELS, is_too_deep, may_have_map_as_key
from purgatory.service.protocol import (
    VERSION,
    Answer,
    Bye,
    Count,
    Failure,
    Hello,
    Jobs,
    OperationStatus,
    OutcomeMessage,
    Outcomes,
    Ping,
    Push,
    Request,
    Welcome,
)
from purgatory.service.verbs import VERBS

PUSHES: Final = (Outcomes, Ping, Jobs, JobEnds, CancelLeases, LeaseReady)

encode: Final = msgspec.msgpack.Encoder().encode
_requests: "Final[msgspec.msgpack.Decoder[Request]]" = msgspec.msgpack.Decoder(
    Union[(Hello, Bye, Begin, *VERBS)]
)
#: Decodes a server's message. Raises one of NOT_A_MESSAGE.
decode_answer: "Final[Callable[[bytes], Answer | Push]]" = msgspec.msgpack.Decoder(
    Union[(Welcome, Failure, *PUSHES, *{verb.answer for verb in VERBS.values()})]
).decode
#: Errors of encoders and decoders. msgspec's own and those of invalid UTF-8 are ValueErrors; deep
#: nesting can exhaust the stack.
NOT_A_MESSAGE: Final = (ValueError, TypeError, RecursionError, OverflowError)

# By first byte: the length of an array's header, and of the array if that byte has it.
_LIST_HEADERS: Final = {0x90 + count: (1, count) for count in range(16)} | {
    0xDC: (3, 0),
    0xDD: (5, 0),
}
_NUMBER_BYTES: Final = dict.fromkeys((*range(0x80), *range(0xE0, 0x100)), 1) | {
    first + power: 1 + (1 << power) for first in (0xCC, 0xD0) for power in range(4)
}
_counts: "Final[msgspec.msgpack.Decoder[int]]" = msgspec.msgpack.Decoder(Count)


def decode_request(frame: bytes) -> Request:
    """Decode a client's message. Raises Malformed."""
    try:
        return _requests.decode(frame)
    except NOT_A_MESSAGE as error:
        raise Malformed(f"not a message of protocol {VERSION}: {error}") from error


# msgspec refuses instances of subclasses, as numpy.float64 is one of float.
_PLAIN: Final[dict[type, Callable[[Any], object]]] = {
    str: str.__str__,
    float: float.__float__,
    int: int.__int__,
    bytes: bytes.__bytes__,
}


def _as_plain(value: object) -> object:
    for kind, convert in _PLAIN.items():
        if isinstance(value, kind):
            return convert(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


_encode_value: Final = msgspec.msgpack.Encoder(enc_hook=_as_plain).encode


def pack(value: Any, what: str = "value") -> bytes:
    """Encode a user's value as MessagePack; errors call it `what`.

    Raises TypeError if not possible, ValueError for a text that UTF-8 cannot hold.
    """
    try:
        packed = _encode_value(value)
    except OverflowError as error:
        time, integer = "a time outside the years 1 to 9999 of UTC", "an integer beyond 64 bits"
        part = time if "date" in str(error) else integer
        raise TypeError(f"{what} cannot be sent: it has {part}") from error
    except (BufferError, RecursionError, TypeError) as error:
        raise TypeError(f"{what} cannot be sent: {error}") from error
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} cannot be sent: {error}") from error
    if is_too_deep(packed):
        raise TypeError(f"{what} cannot be sent: it has more than {MAX_LEVELS} levels")
    if may_have_map_as_key(packed) and not isinstance(value, Raw) and not _is_decodable(packed):
        raise TypeError(f"{what} cannot be sent: a key in it is an object with fields")
    return packed


def _is_decodable(packed: bytes) -> bool:
    return not isinstance(unpack_or_raw(Raw(packed)), Raw)


def pack_result(value: Any, most: int | None) -> Raw:
    """Pack a job's result. Raises TooLarge beyond `most` bytes, Malformed, and as `pack`."""
    packed = pack(value, "result")
    if isinstance(value, Raw):
        unpack(value)  # it is copied as it is
    if most is not None and len(packed) > most:
        raise TooLarge(f"a result of {len(packed)} bytes; expected at most {most}")
    return Raw(packed)


def unpack(raw: Raw | bytes) -> Any:
    """Decode a user's value. Raises Malformed."""
    try:
        return msgspec.msgpack.decode(raw)
    except NOT_A_MESSAGE as error:
        raise Malformed(f"not a value: {error}") from error


def unpack_or_raw(raw: Raw) -> Any:
    """Decode a user's value; a value that Python cannot hold stays a `msgspec.Raw`."""
    try:
        return unpack(raw)
    except Malformed:
        return raw


def unpack_values(message: OperationStatus | OutcomeMessage | JobStatus) -> None:
    """Decode result and payload in place, as `unpack_or_raw`."""
    message.result = unpack_or_raw(message.result)
    message.payload = unpack_or_raw(message.payload)


def for_futures_only(frame: bytes) -> bytes:
    """Set `take`, the end of a frame of `Outcomes`, to False."""
    return frame[:-1] + b"\xc2"


def type_of(frame: bytes) -> int | None:
    """Return the type of a message, or None; the rest may be anything."""
    return _number(frame, 0)


def seq_of(frame: bytes) -> int | None:
    """Return the `seq` of a message, or None, as `type_of`."""
    return _number(frame, 1)


def _number(frame: bytes, index: int) -> int | None:
    try:
        at = _place(frame, index)
        return _counts.decode(frame[at : at + _NUMBER_BYTES[frame[at]]])
    except (LookupError, ValueError):  # msgspec's errors are ValueErrors
        return None


def _place(frame: bytes, index: int) -> int:
    """Return where an item after numbers begins. Raises LookupError."""
    at = _LIST_HEADERS[frame[0]][0]
    for _ in range(index):
        at += _NUMBER_BYTES[frame[at]]
    return at


def count_items(frame: bytes) -> int:
    """Return the stated length of a request's list; 0: no list."""
    try:
        at = _place(frame, 2)  # after type and seq
        header, count = _LIST_HEADERS[frame[at]]
    except LookupError:
        return 0
    return count if header == 1 else int.from_bytes(frame[at + 1 : at + header])
