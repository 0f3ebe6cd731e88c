"""JournalSink: the interface between a server and its journal.

Rows carry numbers from the store, which increase and are never reused. The store keeps each row
until the sink has confirmed it; after a crash the store gives the sink all rows after its last
position again.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from purgatory.service.store.rows import JournalPosition


class JournalStats(NamedTuple):
    """The figures of a journal at one moment.

    `waiting_rows`: committed, and not in a file yet. `lag_s`: for how long the oldest of them has
    waited, at most; 0 if none exists. `failures`: attempts to write that failed, since the start.
    `is_behind`: rows were refused, which the journal gets when the server is started again.
    """

    waiting_rows: int
    lag_s: float
    failures: int
    is_behind: bool


Confirm = Callable[[JournalPosition], None]

#: A number, then the values of a trace's `Operation`, `OutcomeRow`, `KeyEvent`,
#: `Extension` or `JobRow`.
#: Committed rows are plain tuples, which are faster to make than named ones.
JournalRow = tuple[Any, ...]


class JournalSink(Protocol):
    """What a server needs of a journal."""

    def start(self, source: str, confirm: Confirm) -> JournalPosition:
        """Begin, and return up to which numbers rows are safe already.

        `source` identifies the database that gives the numbers, [0-9a-z]+; those of another
        database are unrelated. The sink calls `confirm`, from any thread, when more rows are safe.
        Raises what keeps the server from starting.
        """

    def write(
        self,
        operations: Sequence[JournalRow],
        outcomes: Sequence[JournalRow],
        events: Sequence[JournalRow] = (),
        extensions: Sequence[JournalRow] = (),
        jobs: Sequence[JournalRow] = (),
    ) -> None:
        """Take committed rows, those of each table in order of their numbers.

        Called by the store thread: must return at once, and raise nothing.
        """

    def close(self) -> None:
        """Make safe what was taken, and end: no more is written. Idempotent."""
