"""PostgresOutcomes: the table of outcomes, many in each row.

Thread with the store. Reads raise StoreError.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from purgatory.service.store.postgres.namespace import Namespace
from purgatory.service.store.postgres.outcome_rows import (
    OUTCOME_COLUMNS,
    PackedOutcomes,
    outcome_rows,
    small_outcomes,
)
from purgatory.service.store.postgres.packed_tables import LAST, PackedTable, rewriting
from purgatory.service.store.postgres.sessions.database import Database
from purgatory.service.store.postgres.sessions.session import Statement
from purgatory.service.store.postgres.sessions.wire_values import wire_ints
from purgatory.service.store.rows import StoredOutcome

_SMALL: Final = "first, last, seqs, heads"
# Whether no outcome refers to a spread `s`.
_USED_UP: Final = (
    "last_seq > 0 AND NOT EXISTS (SELECT 1 FROM {outcomes} o, LATERAL unnest("
    "coalesce(o.seqs, ARRAY(SELECT generate_series(o.first, o.last)))) AS q(seq) "
    "WHERE o.last >= s.first_seq AND o.first <= s.last_seq "
    "AND q.seq BETWEEN s.first_seq AND s.last_seq "
    "AND NOT EXISTS (SELECT 1 FROM {forgotten} f WHERE f.seq = q.seq))"
)


class PostgresOutcomes:
    """The tables of a namespace."""

    def __init__(self, database: Database, namespace: Namespace) -> None:
        self._database = database
        self.table: PackedTable = PackedTable(
            namespace, "outcomes", "forgotten_outcomes", "seq", OUTCOME_COLUMNS
        )
        #: The condition on a spread `s` without an outcome.
        self.is_used_up: str = _USED_UP.format(
            outcomes=self.table.name, forgotten=self.table.forgotten
        )

    def write(self, values: list[Any]) -> Statement:
        """Add outcomes, as a flat list of values."""
        columns = list(zip(*(row[:-1] for row in outcome_rows(values)), strict=True))
        return self.table.insert(columns)

    def small(self, after: int) -> Iterator[StoredOutcome]:
        """Yield outcomes above `after`, in order, without keys and results."""
        for rows in self._database.pages(after, self._small_page, key=LAST):
            deleted = self._deleted(rows[0][0], rows[-1][LAST])
            for first, last, seqs, heads in rows:
                numbers = range(first, last + 1) if seqs is None else seqs
                for one in small_outcomes(numbers, heads):
                    if one.seq > after and one.seq not in deleted:
                        yield one

    def all(self) -> Iterator[StoredOutcome]:
        """Yield all outcomes, in order."""
        for rows in self._database.pages(0, self._page, key=LAST):
            deleted = self._deleted(rows[0][0], rows[-1][LAST])
            for row in rows:
                for one in PackedOutcomes(*row).outcomes():
                    if one.seq not in deleted:
                        yield one

    def _page(self, after: int, limit: int) -> Statement:
        return self.table.rows_after(after, limit, f"{self.table.columns}, seqs")

    def _small_page(self, after: int, limit: int) -> Statement:
        return self.table.rows_after(after, limit, _SMALL)

    def _deleted(self, first: int, last: int) -> set[int]:
        return {seq for (seq,) in self._database.rows(self.table.deleted(first, last))}

    def by_seqs(self, seqs: Sequence[int]) -> list[StoredOutcome]:
        """Return the existing outcomes among `seqs`, in order."""
        if not seqs:
            return []
        rows, gone = self._database.read(
            self.table.rows_of(seqs, f"{self.table.columns}, seqs"), self.table.deleted_of(seqs)
        )
        wanted = set(seqs) - {seq for (seq,) in gone}
        return [one for row in rows for one in PackedOutcomes(*row).outcomes() if one.seq in wanted]

    def rewriting(self) -> list[Statement]:
        """Rewrite some sparse rows; see `PackedTable`."""
        return rewriting(self._database, self.table, f"{self.table.columns}, seqs", _rewritten)


def _rewritten(values: tuple[Any, ...], deleted: set[int]) -> dict[str, bytes]:
    left = PackedOutcomes(*values).without(deleted)
    assert left.seqs is not None
    return {"heads": left.heads, "bodies": left.bodies, "seqs": wire_ints(left.seqs)}
