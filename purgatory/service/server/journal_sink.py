"""JournalSink: where a server writes down operations and outcomes for good: its journal.

Rows carry the numbers that the store gave them, which grow and are never given twice. The store
keeps each row until the sink has confirmed it, so a sink that crashed is told again, from its last
position, what it may have lost.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from purgatory.service.store.store import JournalPosition

Confirm = Callable[[JournalPosition], None]

#: The values of an `OperationRow`, and of an `OutcomeRow`: mostly plain tuples, which are made
#: sooner.
OperationValues = tuple[int, str, str, int, int, tuple[str, ...], int]
OutcomeValues = tuple[int, str, str, str, int, str | None, int, int, int, int]


class JournalSink(Protocol):
    """What a server needs of a journal."""

    def start(self, source: str, confirm: Confirm) -> JournalPosition:
        """Begin, and say up to which numbers the rows are safe already.

        ``source``: which database the rows are of, [0-9a-z]+; another one's numbers are others.
        ``confirm`` is to be called, from any thread, when more of them are. Raises what keeps the
        server from starting.
        """

    def write(
        self, operations: Sequence[OperationValues], outcomes: Sequence[OutcomeValues]
    ) -> None:
        """Take rows that were committed, in order of their numbers.

        Called by the store's thread: return at once, and raise nothing.
        """

    def close(self) -> None:
        """Make safe what was taken, and end: nothing more will be written. May be repeated."""
