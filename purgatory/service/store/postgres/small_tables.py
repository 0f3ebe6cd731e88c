"""SmallTables: the store's tables with a row for each thing, and what a commit does with them.

Part of `PostgresStore`, for its thread. Makes statements only.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, Literal

from purgatory.service.store.changes import Changes
from purgatory.service.store.postgres.namespace import Namespace
from purgatory.service.store.postgres.sessions.session import Rows, Statement, statement
from purgatory.service.store.postgres.sessions.wire_values import Kind, wire_int, wire_ints
from purgatory.service.store.postgres.tables import Columns, KeyedTable
from purgatory.service.store.rows import (
    StoredAttempt,
    StoredEvent,
    StoredJob,
    StoredLimit,
    StoredRepeat,
    StoredSpread,
    delete_early_attempts,
)

# The kinds of columns that are no whole numbers.
_KINDS: Final[dict[str, Kind]] = {
    "client": "text",
    "counts": "bytea",
    "error": "text",
    "holder": "text",
    "key": "text",
    "kind": "text",
    "name": "text",
    "per_second": "float8",
    "reply": "bytea",
    "result": "bytea",
    "session": "text",
    "settings": "bytea",
    "value": "bytea",
    "worker": "text",
}
_SIZES: Final = {
    "progress": "SELECT key, octet_length(value)::int8, number FROM {}",
    "held": "SELECT key, octet_length(value)::int8 FROM {}",
    "replies": "SELECT session, octet_length(reply)::int8 FROM {}",
}


def _columns(*names: str) -> Columns:
    return {name: _KINDS.get(name, "int8") for name in names}


class SmallTables:
    """The tables of a namespace. `is_used_up`: SQL of a spread to which no outcome refers."""

    def __init__(self, namespace: Namespace, is_used_up: str) -> None:
        table = partial(KeyedTable, namespace)
        self._is_used_up = is_used_up
        self.progress = table("progress", _columns("number", "key", "value"), keys=2, kept=True)
        self.deadlines = table(
            "deadlines", _columns("number", "deadline_ms"), times=("deadline_ms",)
        )
        self.jobs = table("jobs", _columns(*StoredJob._fields, "error"))
        self.attempts = table("attempts", _columns(*StoredAttempt._fields), keys=2, times=())
        self.results = table("results", _columns("seq", "result"), times=())
        self.held = table(
            "held", _columns("key", *StoredEvent._fields), times=("at_ms", "until_ms")
        )
        self.spreads = table("spreads", _columns(*StoredSpread._fields))
        self.repeats = table("repeats", _columns(*StoredRepeat._fields), keys=2, times=("next_ms",))
        self.replies = table("replies", _columns("session", "seq", "at_ms", "reply"), keys=2)
        self.named_leases = table(
            "named_leases", _columns("name", "holder", "token", "until_ms"), times=("until_ms",)
        )
        self.limits = table("limits", _columns(*StoredLimit._fields), times=())
        self._all = (
            self.progress,
            self.deadlines,
            self.jobs,
            self.attempts,
            self.results,
            self.held,
            self.spreads,
            self.repeats,
            self.replies,
            self.named_leases,
            self.limits,
        )

    def looks(self) -> list[Statement]:
        """Read a row of each table, for `note_use`."""
        return [statement(f"SELECT 1 FROM {table.name} LIMIT 1") for table in self._all]

    def note_use(self, found: list[Rows]) -> None:
        """Note which tables are empty."""
        for table, rows in zip(self._all, found, strict=True):
            table.is_used = bool(rows)

    def writing(self, changes: Changes) -> list[Statement]:
        """Write rows, then delete the named rows."""
        made = [
            table.write(rows)
            for table, rows in (
                (self.deadlines, changes.deadlines),
                (self.jobs, changes.jobs),
                (self.attempts, changes.attempts),
                (self.results, changes.results),
                (self.held, changes.held),
                (self.spreads, changes.spreads),
                (self.repeats, changes.repeats),
                (self.replies, changes.replies),
                (self.named_leases, changes.named_leases),
                (self.limits, changes.limits),
            )
            if rows
        ]
        if changes.trim_attempts:
            seqs = wire_ints(changes.trim_attempts)
            sql = delete_early_attempts(self.attempts.name)
            made.append(statement(f"{sql} AND seq = ANY($1::int8[])", seqs))
        for table, keys in (
            (self.held, changes.delete_held),
            (self.named_leases, changes.delete_named_leases),
            (self.limits, changes.delete_limits),
        ):
            if keys:
                made.append(table.delete(keys))
        if changes.delete_repeats:
            made.append(self.repeats.delete(*zip(*changes.delete_repeats, strict=True)))
        if changes.delete_replies:
            made.append(self.replies.delete(*zip(*changes.delete_replies, strict=True)))
        return made

    def deleting(self, changes: Changes) -> list[Statement]:
        """Delete the rows of operations and deleted outcomes."""
        made: list[Statement] = []
        if numbers := changes.delete_operations:
            if self.deadlines.is_used:
                made.append(self.deadlines.delete(numbers))
            if self.progress.is_used:
                made.append(self.progress.delete_by_first(numbers))
        if seqs := changes.delete_outcomes:
            made += [table.delete(seqs) for table in (self.jobs, self.results) if table.is_used]
            if self.attempts.is_used:
                made.append(self.attempts.delete_by_first(seqs))
        return made

    def deleting_spreads(self) -> list[Statement]:
        """Delete the spreads to which no outcome refers any more."""
        if not self.spreads.is_used:
            return []
        return [statement(f"DELETE FROM {self.spreads.name} s WHERE {self._is_used_up}")]

    def sizes(self, table: Literal["progress", "held", "replies"]) -> Statement:
        """Read the key, or the session, and the bytes of each value that a table has."""
        tables = {"progress": self.progress, "held": self.held, "replies": self.replies}
        return statement(_SIZES[table].format(tables[table].name))

    def shifting(self, by_ms: int, ended: Sequence[int]) -> Iterator[Statement]:
        """Move the times that still matter; `ended`: operations whose deadlines stay."""
        sql = (
            f"UPDATE {self.deadlines.name} SET deadline_ms = deadline_ms + $1::int8 "
            "WHERE number <> ALL($2::int8[])"
        )
        yield statement(sql, wire_int(by_ms), wire_ints(ended))
        yield self.jobs.shift_times(by_ms, "WHERE at_ms > 0")  # 0: a job is ready at once
        for table in (self.held, self.replies, self.spreads, self.named_leases):
            yield table.shift_times(by_ms)
        # A time of the calendar is what the clock shows then, however it was set.
        yield self.repeats.shift_times(by_ms, "WHERE every_ms > 0 AND next_ms > 0")
