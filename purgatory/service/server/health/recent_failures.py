"""RecentFailures: what has failed last at a server: operations, and attempts at jobs.

For the eyes of an operator; nothing is kept on disk. The store thread adds, any thread reads.
"""

from collections import deque
from typing import Final, NamedTuple

from purgatory.service.errors import ServiceError
from purgatory.service.protocol import unpack

#: How many are kept, and how many characters of an error.
KEPT: Final = 10
ERROR_LENGTH: Final = 200


class RecentFailure(NamedTuple):
    """What has failed. `attempt`: of a job, which is dead if it was the last one; 0: no job."""

    at_ms: int
    op_id: str
    kind: str
    client: str
    error: str
    attempt: int = 0
    is_dead: bool = False


class RecentFailures:
    """The last KEPT failures."""

    def __init__(self) -> None:
        self._rows: deque[RecentFailure] = deque(maxlen=KEPT)

    def add(self, failure: RecentFailure) -> None:
        """Add one; O(1)."""
        self._rows.append(failure._replace(error=failure.error[:ERROR_LENGTH]))

    def latest(self) -> list[RecentFailure]:
        """Return them, the latest first."""
        return list(reversed(self._rows.copy()))


def failure_text(error: bytes) -> str:
    """Return the error with which a key has failed, type and message, as a text."""
    try:
        return ": ".join(str(part) for part in unpack(error)[:2] if part)
    except (ServiceError, TypeError, KeyError):  # of a client of another kind
        return ""
