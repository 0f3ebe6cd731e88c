"""JournalDirectory: the rows of a journal that are on disk, by table and number."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from purgatory.service.store.rows import JournalPosition

#: The tables, in the order of a `JournalPosition`.
TABLES: Final = ("operations", "outcomes", "events", "extensions", "jobs")


class JournalDirectory:
    """What outlasts the processes of a server, and losses of power.

    `report`: told of a row whose number is not higher than those before: it was written twice, or
    too late.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._source = ""
        self.rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in TABLES}

    def open(self, source: str) -> JournalPosition:
        """Return up to which numbers there are rows of a database."""
        if any(self.rows.values()) and source != self._source:
            self._report(f"the journal is of the database {self._source}, and now of {source}")
        self._source = source
        return self.position

    @property
    def position(self) -> JournalPosition:
        """The last number in each table."""
        return JournalPosition(*[self._last(table) for table in TABLES])

    def _last(self, table: str) -> int:
        rows = self.rows[table]
        return rows[-1][0] if rows else 0

    def append(self, batch: Sequence[Sequence[tuple[Any, ...]]]) -> None:
        """Write rows of each table."""
        for table, rows in zip(TABLES, batch, strict=True):
            for row in rows:
                if row[0] <= self._last(table):
                    self._report(f"the journal has {table} {self._last(table)}, and now gets {row}")
                self.rows[table].append(tuple(row))
