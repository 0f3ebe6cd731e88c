"""DeletionPace: rows that are not needed any more are deleted a few at a time, with pauses.

Used by the thread that has the store.
"""

from typing import Final

# One transaction deletes so many rows of a table: it should not keep requests waiting. Or that
# share of those that are to go, so that they do not become more and more. And so many milliseconds
# are between two.
DELETED_PER_TRANSACTION: Final = 256
DELETED_SHARE: Final = 64
DELETION_PAUSE_MS: Final = 20


class DeletionPace:
    """When the next rows of one kind may be deleted."""

    def __init__(self) -> None:
        #: Milliseconds of the server's clock.
        self.paused_until_ms: int = 0

    def begin(self, now_ms: int) -> None:
        """Note that a transaction deletes some: then comes a pause."""
        self.paused_until_ms = now_ms + DELETION_PAUSE_MS


def most_deleted(left: int) -> int:
    """Return how many rows a transaction deletes at most, of those that are to go."""
    return max(DELETED_PER_TRANSACTION, left // DELETED_SHARE)
