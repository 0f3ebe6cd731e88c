"""Durations as texts: seconds, `90s`, `1h30m`, and ISO 8601's `PT1H30M`. Pure; any thread."""

import math
import re
from typing import Final

_NUMBER: Final = r"(\d+(?:\.\d+)?)"
_FACTORS: Final = (604_800.0, 86_400.0, 3600.0, 60.0, 1.0, 0.001)
_SHORT: Final = re.compile(
    "".join(f"(?:{_NUMBER}{unit})?" for unit in ("w", "d", "h", "m(?!s)", "s", "ms"))
)
_ISO: Final = re.compile(
    rf"P(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=\d)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?"
)

#: For errors.
EXAMPLES: Final = "seconds, or as 500ms, 30m, 1h30m, PT30M, P1DT2H"


def parse_duration(text: str) -> float:
    """Return a duration in seconds; a plain number may have a sign.

    Raises ValueError for NaN, infinity, and ISO 8601's years and months.
    """
    if not text.isascii():  # digits of other scripts, which `float` takes
        raise _invalid(text)
    try:
        seconds = float(text)
    except ValueError:
        seconds = _sum_of_units(text.strip())
    if not math.isfinite(seconds):
        raise _invalid(text)
    return seconds


def _invalid(text: str) -> ValueError:
    return ValueError(f"{text!r} is not a valid duration; expected {EXAMPLES}")


def _sum_of_units(text: str) -> float:
    """Return the seconds of `1h30m` or `PT1H30M`; NaN for another text."""
    match = _ISO.fullmatch(text.upper()) or _SHORT.fullmatch(text.lower())
    if match is None or not any(match.groups()):
        return math.nan
    parts = zip(match.groups(), _FACTORS, strict=False)  # ISO 8601 has no milliseconds
    seconds = sum(float(number) * factor for number, factor in parts if number)
    return round(seconds, 9)  # 9 * 0.001 is above 0.009, which would be rounded up to 10 ms
