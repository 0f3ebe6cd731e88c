"""PostgresJournalQueue: what the journal is to get. Reads raise StoreError.

Part of `PostgresStore`, for its thread.
"""

from typing import Any, Final

from purgatory.service.store.postgres.namespace import Namespace
from purgatory.service.store.postgres.sessions.database import Database
from purgatory.service.store.postgres.sessions.session import Rows, Statement, statement
from purgatory.service.store.postgres.sessions.wire_values import wire_int
from purgatory.service.store.postgres.tables import Columns, KeyedTable
from purgatory.service.store.rows import QueuedJob, QueueNumbers, pack_jobs, unpack_jobs

_EVENTS: Final[Columns] = {
    "number": "int8",
    "key": "text",
    "at_ms": "int8",
    "hold_ms": "int8",
    "failed": "int8",
}
_EXTENSIONS: Final[Columns] = {
    "number": "int8",
    "op_id": "text",
    "at_ms": "int8",
    "timeout_ms": "int8",
}
_JOBS: Final[Columns] = {"number": "int8", "first": "int8", "jobs": "bytea"}


class PostgresJournalQueue:
    """The three tables of a namespace."""

    def __init__(self, database: Database, namespace: Namespace) -> None:
        self._database = database
        self._tables = [
            KeyedTable(namespace, name, columns, kept=True)
            for name, columns in (
                ("queued_events", _EVENTS),
                ("queued_extensions", _EXTENSIONS),
                ("queued_jobs", _JOBS),
            )
        ]

    def write(
        self, events: list[Any], extensions: list[Any], jobs: list[QueuedJob]
    ) -> list[Statement]:
        """Add rows: of events and extensions flat lists of values; jobs in order of numbers."""
        packed = [jobs[-1].number, jobs[0].number, pack_jobs(jobs)] if jobs else []
        return [
            table.write(values)
            for table, values in zip(self._tables, (events, extensions, packed), strict=True)
            if values
        ]

    def delete(self, numbers: QueueNumbers) -> list[Statement]:
        """Delete the rows up to these numbers: the journal has them."""
        return [
            statement(f"DELETE FROM {table.name} WHERE number <= $1::int8", wire_int(number))
            for table, number in zip(self._tables, numbers, strict=True)
        ]

    def deleted(self, last: QueueNumbers) -> QueueNumbers:
        """Return up to which numbers the rows were deleted; `last`: the last ones ever given."""
        columns = ("number", "number", "first")
        firsts = self._database.read(
            *(
                statement(f"SELECT min({column}) FROM {table.name}")
                for table, column in zip(self._tables, columns, strict=True)
            )
        )
        events, extensions, jobs = (
            number if rows[0][0] is None else rows[0][0] - 1
            for rows, number in zip(firsts, last, strict=True)
        )
        return events, extensions, jobs

    def last_event_ms(self, after: int) -> int | None:
        """Return the time of the last event numbered above `after`; None if none exists."""
        rest = "WHERE number > $1::int8 ORDER BY number DESC LIMIT 1"
        found = self._database.rows(
            self._tables[0].select(rest, wire_int(after), columns=("at_ms",))
        )
        return found[0][0] if found else None

    def events(self, after: int) -> Rows:
        """Return the rows of events with numbers above `after`, in order."""
        return self._rows(0, after)

    def extensions(self, after: int) -> Rows:
        """Return those of extensions."""
        return self._rows(1, after)

    def jobs(self, after: int) -> list[QueuedJob]:
        """Return the ends of jobs with numbers above `after`, in order."""
        rows = self._rows(2, after)
        return [job for *_, packed in rows for job in unpack_jobs(packed) if job.number > after]

    def _rows(self, at: int, after: int) -> Rows:
        table = self._tables[at]
        rest = "WHERE number > $1::int8 ORDER BY number"
        return table.decoded(self._database.rows(table.select(rest, wire_int(after))))
