"""Outcome: how an operation ends."""

import enum
from typing import Final


class Outcome(enum.StrEnum):
    """How an operation ended."""

    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


# Bound once: to look into an enum costs as much as half of what is done for an operation.
COMPLETED: Final = Outcome.COMPLETED
EXPIRED: Final = Outcome.EXPIRED
CANCELLED: Final = Outcome.CANCELLED
