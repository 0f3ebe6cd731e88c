"""Outcome: how an operation ends."""

import enum
from typing import Final

from timingwheel.lowlevel import keep_for_ever


class Outcome(enum.StrEnum):
    """How an operation ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


# Bound once: a look into an enum costs half as much as all that is done for an operation.
COMPLETED: Final = Outcome.COMPLETED
FAILED: Final = Outcome.FAILED
EXPIRED: Final = Outcome.EXPIRED
CANCELLED: Final = Outcome.CANCELLED
for outcome in Outcome:  # every operation refers to one
    keep_for_ever(outcome)
