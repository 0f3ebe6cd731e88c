"""Outcome: how an operation ends."""

import enum
from typing import Final


class Outcome(enum.StrEnum):
    """How an operation ended."""

    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


# Bound once: a look into an enum costs half as much as all that is done for an operation.
COMPLETED: Final = Outcome.COMPLETED
EXPIRED: Final = Outcome.EXPIRED
CANCELLED: Final = Outcome.CANCELLED
