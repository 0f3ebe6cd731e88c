"""PostgresStore: operations and their outcomes in a PostgreSQL database, as `Store` promises.

Each commit checks the lease (see `Groups`). Doubt never reaches the server: a commit returns, was
refused, or the server is fenced. While the database is away, a commit or a read waits for it, until
`stop`. For threads see `Store`.
"""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Literal

from purgatory.errors import StoreError
from purgatory.service.store.changes import Changes
from purgatory.service.store.contract import UNFINISHED_COPY
from purgatory.service.store.lease import HeldLease
from purgatory.service.store.postgres.groups import NO_NUMBERS, Groups
from purgatory.service.store.postgres.metadata_rows import MetadataRows, metadata_of
from purgatory.service.store.postgres.namespace import namespace_of
from purgatory.service.store.postgres.operation_rows import PostgresOperations
from purgatory.service.store.postgres.outcome_table import PostgresOutcomes
from purgatory.service.store.postgres.packed_tables import PackedTable
from purgatory.service.store.postgres.schema import migration, set_up_schema, stored_version
from purgatory.service.store.postgres.sessions.database import ANSWER_S, Database
from purgatory.service.store.postgres.sessions.postgres_errors import damage_refused
from purgatory.service.store.postgres.sessions.session import Rows, Statement, statement
from purgatory.service.store.postgres.small_tables import SmallTables
from purgatory.service.store.rows import (
    QUEUED_EVENT,
    QUEUED_EXTENSION,
    JournalPosition,
    StoredOutcome,
    checked,
)
from purgatory.service.store.table_store import RememberedTable, TableStore

log: logging.Logger = logging.getLogger(__name__)

_SIZE_AGE_S: Final = 60.0  # until the size is read again


class PostgresStore(TableStore):
    """The store in the database of `url`, for the holder of `lease`.

    `require_replicated`: refuse writes without a synchronous standby. `answer_s`: seconds until a
    group without an answer is in doubt. Raises StoreError if the database cannot be used,
    StoreFenced if another server has the lease. `PostgresLeaseRow.set_up` has made the tables.
    """

    def __init__(
        self,
        url: str,
        partition: str,
        lease: HeldLease,
        *,
        require_replicated: bool = False,
        answer_s: float = ANSWER_S,
    ) -> None:
        namespace = self._namespace = namespace_of(partition)
        self._lease = lease
        self._database = Database(
            url,
            lambda: namespace.session_name(self._lease.epoch, self._lease.holder),
            answer_s=answer_s,
        )
        self._require_replicated = require_replicated
        self.lost: StoreError | None = None
        self.is_closing: bool = False
        self.clock_offset_ns: int | None = lease.clock_offset_ns
        self._stored_bytes = 0
        self._size_age_s = 0.0
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        self._database.is_patient = True

    def _open(self) -> None:
        database, namespace = self._database, self._namespace
        set_up_schema(database.session(), namespace, ANSWER_S)
        self._groups = Groups(
            database, namespace, self._lease, require_replicated=self._require_replicated
        )
        version = stored_version(database.session(), namespace, ANSWER_S)
        steps = migration(namespace, version)
        if steps:
            self._groups.write(steps)
            log.warning("%s: migrated from schema version %d", database.where, version)
        self._meta = MetadataRows(namespace)
        self._operations: PostgresOperations = PostgresOperations(database, namespace)
        self._outcomes = PostgresOutcomes(database, namespace)
        self._small = SmallTables(namespace, self._outcomes.is_used_up)
        self._small.note_use(database.read(*self._small.looks()))
        self.remembered: RememberedTable = RememberedTable(self)
        for packed in (self._operations.table, self._outcomes.table):
            packed.sparse.update(first for (first,) in database.rows(packed.find_sparse()))
        if self.metadata().get(UNFINISHED_COPY):
            raise StoreError(
                f"{database.where}: a copy to the schema {namespace.schema} was not finished; "
                "drop the schema, and copy again"
            )
        self._look_at_size()

    @property
    def is_replicated(self) -> bool | None:
        """Whether the last commit was replicated; None: no commit. Any thread."""
        return self._groups.is_replicated

    # Writing.

    def commit(self, changes: Changes) -> None:
        deletes: list[tuple[PackedTable, Statement]] = []
        statements = self._statements(changes, deletes)
        found = self._write(statements, self._last_of(changes))
        for table, delete in deletes:
            table.sparse.difference_update(table.rewritten)
            if found:
                table.sparse.update(first for (first,) in found[statements.index(delete)])
        if time.monotonic() - self._size_age_s > _SIZE_AGE_S:
            try:
                self._look_at_size()
            except StoreError as error:  # the changes are on disk
                log.warning("the size of the tables stays that of before: %s", error)

    def _write(
        self, statements: Sequence[Statement], last: JournalPosition = NO_NUMBERS
    ) -> list[Rows]:
        if self.lost is not None:
            raise self.lost
        return self._groups.write(statements, last)

    def _statements(
        self, changes: Changes, deletes: list[tuple[PackedTable, Statement]]
    ) -> list[Statement]:
        """Return what a commit writes; add deletes of packed tables to `deletes`."""
        made: list[Statement] = []
        if changes.operations:
            made.append(self._operations.write(changes.operations))
        if changes.progress:
            made.append(self._small.progress.write(changes.progress))
        if changes.outcomes:
            made.append(self._outcomes.write(changes.outcomes))
        if changes.has_others:
            if changes.delete_operations or changes.delete_outcomes:
                made += self._deleting(changes, deletes)
            made += self._small.writing(self._rows_of(changes), changes)
            if changes.remembered is not None:
                made += self._metadata_statements(self.remembered.metadata_of(changes.remembered))
        return made

    def _deleting(
        self, changes: Changes, deletes: list[tuple[PackedTable, Statement]]
    ) -> list[Statement]:
        made = self._small.deleting(changes)
        for rows, numbers in (
            (self._operations, changes.delete_operations),
            (self._outcomes, changes.delete_outcomes),
        ):
            if numbers:
                made += rows.rewriting()
                deletes.append((rows.table, rows.table.delete(numbers)))
                made.append(deletes[-1][1])
        return made + self._small.deleting_spreads()

    def _last_of(self, changes: Changes) -> JournalPosition:
        operation = outcome = event = extension = job = 0
        if changes.operations:
            batch = changes.operations[-1]
            operation = batch.first + len(batch.operations) - 1
        if changes.outcomes:
            outcome = max(changes.outcomes[:: len(StoredOutcome._fields)])
        if changes.queued_events:
            event = changes.queued_events[-QUEUED_EVENT]
        if changes.queued_extensions:
            extension = changes.queued_extensions[-QUEUED_EXTENSION]
        if changes.queued_jobs:
            job = changes.queued_jobs[-1].number
        return JournalPosition(operation, outcome, event, extension, job)

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        self._write(self._metadata_statements(metadata))

    def skip_outcome_numbers(self, count: int) -> None:
        last = JournalPosition(0, self.last_numbers().outcomes + count)
        self._write([], last)

    def _metadata_statements(self, metadata: dict[str, Any]) -> list[Statement]:
        return [self._meta.write(key, value) for key, value in metadata.items()]

    def check_room(self, size: int) -> None:
        self._write([self._meta.fill_room(os.urandom(size))])  # zeros would be compressed
        self._write([self._meta.empty_room()])

    # The start.

    def metadata(self) -> dict[str, Any]:
        with damage_refused(self._database.where):
            return metadata_of(self._database.rows(self._meta.read()))

    def place(self) -> int:
        table = self._namespace.table("lease").encode()
        [(oid,)] = self._database.rows(statement("SELECT $1::text::regclass::oid::int8", table))
        return int(oid)

    def last_numbers(self) -> JournalPosition:
        sql = (
            "SELECT last_operation, last_outcome, last_event, last_extension, last_job "
            f"FROM {self._namespace.table('lease')}"
        )
        return JournalPosition(*self._database.rows(statement(sql))[0])

    def outcomes_without_results(self, after: int = 0) -> Iterator[StoredOutcome]:
        with damage_refused(self._database.where):
            yield from self._outcomes.small(after)

    def outcomes(self) -> Iterator[StoredOutcome]:
        with damage_refused(self._database.where):
            yield from self._outcomes.all()

    def progress(self) -> Iterator[tuple[int, str, bytes]]:
        table = self._small.progress
        rows = self._rows(table.select())
        ended = self._ended() if rows else set()
        with damage_refused(self._database.where):
            found = checked(table.decoded(rows))
        return (row for row in found if row[0] not in ended)

    def _ended(self) -> set[int]:
        return {one.number for one in self.outcomes_without_results()}

    def sizes(self, table: Literal["progress", "held", "replies"]) -> Iterator[tuple[str, int]]:
        rows = self._rows(self._small.sizes(table))
        if table == "progress" and rows:
            ended = self._ended()
            rows = [row for row in rows if row[2] not in ended]
        return ((key.decode(), size) for key, size, *_ in rows)

    def _read_outcomes(self, seqs: Sequence[int]) -> list[StoredOutcome]:
        return self._outcomes.by_seqs(seqs)

    def _reading(self) -> AbstractContextManager[None]:
        return damage_refused(self._database.where)

    def _read(self, table: str, rest: str = "", columns: Sequence[str] = ()) -> Rows:
        found = self._small.by_name[table]
        return found.decoded(self._rows(found.select(rest, columns=columns)), columns)

    def _read_keys(self, table: str, keys: Sequence[Any], columns: Sequence[str] = ()) -> Rows:
        found = self._small.by_name[table]
        if not found.is_used or not keys:
            return []
        return found.decoded(self._rows(found.select_keys(keys, columns)), columns)

    # The life of the store.

    def trouble(self) -> str:
        """Return nothing: a lost database is waited for."""
        return ""

    def waits_for(self) -> str:
        return self._database.waits_for

    def stored_bytes(self) -> int:
        """See `Store`. As of a minute ago."""
        return self._stored_bytes

    def _look_at_size(self) -> None:
        sql = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1::text AND relkind = 'r'"
        )
        schema = self._namespace.schema.encode()
        self._size_age_s = time.monotonic()
        self._stored_bytes = self._rows(statement(sql, schema))[0][0]

    def stop(self) -> None:
        self._database.interrupt.set()

    def close(self) -> None:
        self.is_closing = True
        self._database.close()

    def _rows(self, one: Statement) -> Rows:
        return self._database.rows(one)
