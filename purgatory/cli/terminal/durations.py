"""Durations on the command line: seconds, `90s`, `1h30m`, and ISO 8601's `PT1H30M`.

`seconds` is a type for argparse. Called from the main thread.
"""

from __future__ import annotations

import argparse
import re
from typing import Final

#: For `metavar`.
DURATION: Final = "DURATION"

_NUMBER: Final = r"(\d+(?:\.\d+)?)"
_FACTORS: Final = (604_800.0, 86_400.0, 3600.0, 60.0, 1.0, 0.001)
_SHORT: Final = re.compile(
    "".join(f"(?:{_NUMBER}{unit})?" for unit in ("w", "d", "h", "m(?!s)", "s", "ms"))
)
_ISO: Final = re.compile(
    rf"P(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=\d)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?"
)


def seconds(text: str) -> float:
    """Return a duration in seconds; a plain number is one in seconds, of any sign.

    Raises ArgumentTypeError for what is no duration, also for ISO 8601's years and months, which
    have no fixed length.
    """
    try:
        return float(text)
    except ValueError:
        pass
    compact = text.strip()
    match = _ISO.fullmatch(compact.upper()) or _SHORT.fullmatch(compact.lower())
    if match is None or not any(match.groups()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no duration; expected seconds, or as 500ms, 30m, 1h30m, PT30M, P1DT2H"
        )
    parts = zip(match.groups(), _FACTORS, strict=False)  # ISO 8601 has no milliseconds
    return sum(float(number) * factor for number, factor in parts if number)
