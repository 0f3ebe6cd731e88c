"""PostgresRemembered: the rows of ended, remembered operations and jobs, by place.

Part of `PostgresStore`, for its thread. Reads raise StoreError.
"""

from collections.abc import Iterator, Sequence

from purgatory.service.store.changes import RememberedChanges
from purgatory.service.store.contract import COUNT, LAST_PLACE, SHIFT, RememberedRows
from purgatory.service.store.postgres.metadata_rows import MetadataRows, value_of
from purgatory.service.store.postgres.namespace import Namespace
from purgatory.service.store.postgres.sessions.database import Database
from purgatory.service.store.postgres.sessions.session import Statement
from purgatory.service.store.postgres.sessions.wire_values import wire_int
from purgatory.service.store.postgres.tables import KeyedTable
from purgatory.service.store.rows import RememberedRow


class PostgresRemembered(RememberedRows):
    """The tables of a namespace."""

    def __init__(self, database: Database, namespace: Namespace, meta: MetadataRows) -> None:
        self._database = database
        self._meta = meta
        self._rows = KeyedTable(
            namespace,
            "remembered",
            {
                "place": "int8",
                "until_ms": "int8",
                "hash": "int8",
                "seq": "int8",
                "status": "bytea",
            },
            kept=True,
        )
        self._shards = KeyedTable(
            namespace,
            "remembered_shards",
            {"shard": "int8", "last_place": "int8", "entries": "bytea"},
        )
        self._shift_ms = self._number(SHIFT)

    def _number(self, key: str) -> int:
        return int(value_of(self._database.rows(self._meta.read_one(key))) or 0)

    def write(self, changes: RememberedChanges) -> list[Statement]:
        """Write rows and shards, and delete rows."""
        made: list[Statement] = []
        if changes.rows:
            values = [
                value
                for place, until_ms, hashed, seq, status in changes.rows
                for value in (place, until_ms - self._shift_ms, hashed, seq, status)
            ]
            made.append(self._rows.write(values))
        if changes.deleted:
            made.append(self._rows.delete([place for _, place in changes.deleted]))
        if changes.shards:
            made.append(self._shards.write([value for row in changes.shards for value in row]))
        if changes.rows or changes.deleted:
            made.append(self._meta.write(COUNT, changes.count))
            made.append(self._meta.write(LAST_PLACE, changes.last_place))
        return made

    def read(self, places: Sequence[int]) -> list[RememberedRow]:
        """See `RememberedRows`."""
        found = [RememberedRow(*row) for row in self._database.rows(self._rows.select_keys(places))]
        found.sort(reverse=True)
        return [row._replace(until_ms=row.until_ms + self._shift_ms) for row in found]

    def due(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """See `RememberedRows`."""
        rest = f"WHERE until_ms <= $1::int8 ORDER BY until_ms LIMIT {limit}"
        before = wire_int(now_ms - self._shift_ms)
        return self._database.rows(self._rows.select(rest, before, columns=("hash", "place")))

    def shifting(self, by_ms: int) -> list[Statement]:
        """Move the times of all rows, unwritten: they may be millions."""
        if not self.counts()[0]:
            return []
        return [self._meta.write(SHIFT, self._shift_ms + by_ms)]

    def read_shift(self) -> None:
        """Read the shift, after a commit of `shifting`."""
        self._shift_ms = self._number(SHIFT)

    def counts(self) -> tuple[int, int]:
        """See `RememberedRows`."""
        return self._number(COUNT), self._number(LAST_PLACE)

    def shards(self) -> Iterator[tuple[int, int, bytes]]:
        """See `RememberedRows`."""
        for page in self._database.pages(-1, self._shard_page):
            yield from page

    def _shard_page(self, after: int, limit: int) -> Statement:
        rest = f"WHERE shard > $1::int8 ORDER BY shard LIMIT {limit}"
        return self._shards.select(rest, wire_int(after))

    def entries(self, after: int) -> Iterator[tuple[int, int]]:
        """See `RememberedRows`."""
        for page in self._database.pages(after, self._entry_page):
            for place, hashed in page:
                yield hashed, place

    def _entry_page(self, after: int, limit: int) -> Statement:
        rest = f"WHERE place > $1::int8 ORDER BY place LIMIT {limit}"
        return self._rows.select(rest, wire_int(after), columns=("place", "hash"))
