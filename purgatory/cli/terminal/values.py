"""Values, moments and outcomes as texts and as JSON. Called from the main thread."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any


def value_text(value: Any) -> str:
    """Return a value as the terminal shows it: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json_text(value)


def json_text(value: Any) -> str:
    """Return a value as one line of JSON; what JSON cannot hold as its `repr`."""
    try:
        return json.dumps(value, default=repr)
    except (TypeError, ValueError):  # a map with keys that are no texts
        return json.dumps(repr(value))


def optional_text(value: Any) -> str:
    """Return a value as the terminal shows it; empty for None."""
    return "" if value is None else value_text(value)


def result_text(outcome: str, value: Any) -> str:
    """Return the result of an operation: its value or, if it failed, the error."""
    if outcome == "failed" and isinstance(value, list) and len(value) >= 2:
        return ": ".join(str(text) for text in value[:2] if text)
    return optional_text(value)


def moment(unix_ms: int) -> str:
    """Return Unix milliseconds as a local time."""
    try:
        local = datetime.fromtimestamp(unix_ms / 1000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):  # beyond what a calendar can hold
        return f"{unix_ms} ms"
    return local.isoformat(" ", "milliseconds")
