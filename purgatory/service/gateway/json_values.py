"""Values as JSON, and durations. Pure; any thread."""

import base64
from typing import Any

import msgspec

from purgatory.durations import parse_duration
from purgatory.service.encoding import pack


def as_json(value: Any) -> msgspec.Raw:
    """Return a value of MessagePack as JSON, bytes as base64.

    What JSON has no form for, as maps with lists as keys, comes as base64 of its MessagePack.
    """
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(base64.b64encode(pack(value)).decode("ascii")))


def seconds(duration: float | str) -> float:
    """Return a `Duration` in seconds. Raises ValueError."""
    return parse_duration(duration) if isinstance(duration, str) else duration
