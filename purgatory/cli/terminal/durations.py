"""Durations on the command line. Called from the main thread."""

from __future__ import annotations

import argparse
from typing import Final

from purgatory.durations import parse_duration

#: For `metavar`.
DURATION: Final = "DURATION"


def seconds(text: str) -> float:
    """Return a duration in seconds, as a type for argparse. Raises ArgumentTypeError."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
