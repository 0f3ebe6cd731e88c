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

#: What a text is expected to be, for errors.
EXAMPLES: Final = "seconds, or as 500ms, 30m, 1h30m, PT30M, P1DT2H"


def parse_duration(text: str) -> float:
    """Return a duration in seconds; a plain number is one in seconds, of any sign.

    Raises ValueError for what is no duration, also for ISO 8601's years and months, which have no
    fixed length.
    """
    try:
        number = float(text)
        if not math.isnan(number):
            return number
    except ValueError:
        pass
    compact = text.strip()
    match = _ISO.fullmatch(compact.upper()) or _SHORT.fullmatch(compact.lower())
    if match is None or not any(match.groups()):
        raise ValueError(f"{text!r} is no duration; expected {EXAMPLES}")
    parts = zip(match.groups(), _FACTORS, strict=False)  # ISO 8601 has no milliseconds
    return sum(float(number) * factor for number, factor in parts if number)
