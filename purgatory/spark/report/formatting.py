"""Formats durations, times, shares, counts and names, for page and terminal."""

import unicodedata
from datetime import UTC, datetime, timedelta
from math import floor, log10
from typing import Final

# Units of durations: ms, name.
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NOTHING: Final = "\N{EN DASH}"


def duration(ms: float | None) -> str:
    """Format a duration with its unit: "250 ms", "1.25 s", "3 d"."""
    if ms is None:
        return NOTHING
    for size, unit in _UNITS:
        if abs(ms) >= size:
            return f"{number(ms / size)} {unit}"
    return f"{number(ms)} ms"


def number(value: float) -> str:
    """Format a number to three significant digits: "0.00123", "1.5", "12,300"."""
    if not value:
        return "0"
    decimals = 2 - floor(log10(abs(value)))
    if decimals <= 0:
        return f"{round(value, decimals):,.0f}"
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".")


# Nearer to none or all, a share is not exact.
_LEAST_PERCENT: Final = 0.01


def share(value: float | None) -> str:
    """Format a share in percent: "0.25 %", "99.97 %", "< 0.01 %"."""
    if value is None:
        return NOTHING
    percent = 100 * value
    near = min(percent, 100 - percent)
    if 0 < near < _LEAST_PERCENT:
        return "< 0.01 %" if percent < 50 else "> 99.99 %"
    digits = 1 if near >= 1 or near == 0 else 2
    text = f"{percent:.{digits}f}".rstrip("0").rstrip(".")
    return f"{text} %"


def count(value: int | None) -> str:
    """Format an integer with grouped digits."""
    return NOTHING if value is None else f"{value:,}"


def utc_time(unix_ms: int, to_ms: int = 1) -> str:
    """Format a time in UTC, precise to `to_ms`; as Unix ms if no calendar reaches it."""
    try:
        at = _EPOCH + timedelta(milliseconds=unix_ms)
    except OverflowError:
        return f"{unix_ms} ms"
    if to_ms >= 86_400_000:
        return f"{at:%Y-%m-%d}"
    if to_ms >= 60_000:
        return f"{at:%Y-%m-%d %H:%M}"
    if to_ms >= 1000:
        return f"{at:%Y-%m-%d %H:%M:%S}"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"


# Control characters, lone surrogates, and characters that change the text direction.
_UNPRINTABLE: Final = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}


def name(text: str, max_length: int = 60) -> str:
    """Make a name printable, in at most `max_length` characters."""
    clean = "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(letter) in _UNPRINTABLE else letter
        for letter in text
    )
    if len(clean) <= max_length:
        return clean
    return f"{clean[: max_length - 1]}\N{HORIZONTAL ELLIPSIS}"
