"""JournalSink: the interface between a server and its journal.

Rows have increasing numbers, never reused. The store keeps each row until the sink has confirmed
it; after a crash it gives the sink later rows again.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from purgatory.service.store.rows import JournalPosition


class JournalStats(NamedTuple):
    """The figures of a journal at one moment.

    `waiting_rows`: committed, and in no file yet; the oldest has waited for `lag_s` at most.
    `failures`: failed attempts to write since the start. `is_behind`: rows were refused; the
    journal gets them at the server's next start.
    """

    waiting_rows: int
    lag_s: float
    failures: int
    is_behind: bool


Confirm = Callable[[JournalPosition], None]

#: A number, then the values of a trace's `Operation`, `OutcomeRow`, `KeyEvent`, `Extension` or
#: `JobRow`, as tuples: these are faster to make than named tuples.
JournalRow = tuple[Any, ...]


class JournalSink(Protocol):
    """The journal of a server."""

    def start(self, source: str, confirm: Confirm) -> JournalPosition:
        """Begin; return the numbers up to which rows are safe.

        `source` identifies the database, [0-9a-z]+. The sink calls `confirm`, from any thread, when
        more rows are safe. An error ends the server's start.
        """

    def write(
        self,
        operations: Sequence[JournalRow],
        outcomes: Sequence[JournalRow],
        events: Sequence[JournalRow] = (),
        extensions: Sequence[JournalRow] = (),
        jobs: Sequence[JournalRow] = (),
    ) -> None:
        """Take committed rows, of each table by number.

        The store thread calls it: it must return at once, and raise nothing.
        """

    def close(self) -> None:
        """Make all rows safe, and end. Idempotent."""
