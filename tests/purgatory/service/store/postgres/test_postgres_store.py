"""PostgresStore: what the database interrupts. Its promises: tested over both kinds of stores."""

from collections.abc import Iterator

import pytest
from msgspec import Raw

from purgatory.errors import StoreError
from purgatory.service.server.recovery import load_state, start_clock
from purgatory.service.store.changes import RememberedChanges
from purgatory.service.store.contract import SKIPPED, UNFINISHED_COPY, RememberedRows, Store
from purgatory.service.store.postgres import postgres_store
from purgatory.service.store.postgres.sessions.postgres_errors import SessionLost, StatementRefused
from purgatory.service.store.postgres.sessions.session import DatabaseSession
from purgatory.service.store.rows import JobState, OperationBatch, RememberedRow
from tests.postgres.programs import run
from tests.testing.changes import changes_of
from tests.testing.held_lease import open_store
from tests.testing.store_reads import READS, REMEMBERED

WRITES = {"commit", "set_metadata", "skip_outcome_numbers", "check_room"}
#: What asks no database, or ends the store.
OTHERS = {"trouble", "stored_bytes", "stop", "close"}


@pytest.fixture
def store(postgres):
    """A store of an operation, and of a job that was done."""
    opened = open_store(postgres.url)
    remembered = RememberedChanges()
    remembered.rows = [RememberedRow(1, 900, 7, 0, b"\x01")]
    operation = ["op-1", ["k"], 999, 1, "", Raw(b"\xc0")]
    opened.commit(
        changes_of(
            operations=[OperationBatch(1, "c", 1, [operation])],
            outcomes=[1, 1, "expired", 1000, 0, "", bytearray(b"\xc0")],
            deadlines=[1, 1000],
            jobs=[1, JobState.DONE, 1, 1000, ""],
            attempts=[1, 1, 1, 5, 7, "w", "boom"],
            results=[1, bytearray(b"\x05")],
            remembered=remembered,
        )
    )
    yield opened
    opened.close()


class Interruptions:
    """Refuses the first attempt at each group of statements, or loses its session."""

    def __init__(self, monkeypatch, error):
        self._run = DatabaseSession.run
        self._error = error
        self._refused = set()
        self.count = 0
        monkeypatch.setattr(DatabaseSession, "run", lambda *args: self.run(*args))

    def run(self, session, statements, timeout_s):
        """See `DatabaseSession`."""
        if tuple(statements) not in self._refused:
            self._refused.add(tuple(statements))
            self.count += 1
            raise self._error
        return self._run(session, statements, timeout_s)


def value_of(rows, name, arguments):
    """Return what a read finds."""
    found = getattr(rows, name)(*arguments)
    return list(found) if isinstance(found, Iterator) else found


def test_numbers_of_deleted_rows_are_not_given_again(postgres, store):
    """The database keeps the last numbers, also those of several operations together."""
    items = [[f"op-{n}", ["k"], 999, 1, "", Raw(b"\xc0")] for n in (2, 3, 4)]
    store.commit(changes_of(operations=[OperationBatch(2, "c", 1, items)]))
    store.commit(changes_of(delete_operations=[2, 3, 4]))
    store.close()
    again = open_store(postgres.url)
    assert again.last_numbers()[:2] == (4, 1)
    again.close()


def test_a_copy_that_was_not_finished(postgres, store):
    """It is no store; the error says what helps."""
    store.set_metadata({UNFINISHED_COPY: 1})
    store.close()
    with pytest.raises(StoreError, match="was not finished; drop the schema, and copy again"):
        open_store(postgres.url)


def test_a_dump_that_is_restored(postgres, store, caplog):
    """Outcomes get numbers that no client can know; a restart in the same place skips none."""
    for _ in range(2):
        load_state(store, start_clock(store))
        assert store.last_numbers().outcomes == 1
    dump = postgres.cluster.directory / f"{postgres.name}.dump"
    run("pg_dump", "-Fc", "-f", dump, postgres.url)
    run("pg_restore", "--clean", "-d", postgres.url, dump)
    store.close()
    again = open_store(postgres.url)
    for _ in range(2):
        assert load_state(again, start_clock(again)).last_seq == 1 + SKIPPED
    again.close()
    assert "new outcomes get numbers above" in caplog.text


def test_all_reads_are_tested():
    """Those that the contract has."""
    assert set(READS) | WRITES | OTHERS == Store.__abstractmethods__
    assert set(REMEMBERED) == RememberedRows.__abstractmethods__


@pytest.mark.parametrize(
    "error",
    [
        StatementRefused("canceling statement due to user request", "57014", 0),
        SessionLost("terminating connection due to administrator command"),
    ],
    ids=["cancelled", "lost"],
)
def test_reads_that_are_interrupted(store, monkeypatch, error):
    """Each is done again, statement by statement: nobody notices."""
    reads = [(store, *one) for one in READS.items()]
    reads += [(store.remembered, *one) for one in REMEMBERED.items()]
    before = [value_of(*read) for read in reads]
    for read, found in zip(reads, before, strict=True):
        with monkeypatch.context() as patched:
            interruptions = Interruptions(patched, error)
            assert value_of(*read) == found
        assert interruptions.count, read


def test_a_look_at_the_size_that_is_refused(store, monkeypatch):
    """The commit before it is there: it succeeds."""
    monkeypatch.setattr(postgres_store, "_SIZE_AGE_S", -1.0)
    run, size = DatabaseSession.run, store.stored_bytes()

    def refuse(session, statements, timeout_s):
        if any(b"pg_total_relation_size" in sql for sql, _ in statements):
            raise StatementRefused("permission denied", "42501", 0)
        return run(session, statements, timeout_s)

    monkeypatch.setattr(DatabaseSession, "run", refuse)
    store.commit(changes_of(deadlines=[1, 2000]))
    assert [one.deadline_ms for one in store.operations()] == [2000]
    assert store.stored_bytes() == size
    with pytest.raises(StoreError, match="permission denied"):
        store._look_at_size()


def test_a_commit_writes_rows_of_each_kind(store):
    """One kind alone, too."""
    item = ["op-2", ["k", "l"], 999, 2, "", Raw(b"\xc0")]
    store.commit(changes_of(operations=[OperationBatch(2, "c", 1, [item])]))
    assert [one.op_id for one in store.operations()] == ["op-1", "op-2"]
    store.commit(changes_of(progress=[2, "k", b"\x03"]))
    assert list(store.progress()) == [(2, "k", b"\x03")]
    store.commit(changes_of(held=["h", 1, 5, 105, -1, b"\xa1v"]))
    assert [[*store.sizes(table)] for table in ("progress", "held")] == [[("k", 1)], [("h", 2)]]
    store.commit(changes_of(outcomes=[2, 2, "expired", 1000, 0, "", bytearray(b"\xc0")]))
    assert [one.number for one in store.outcomes_without_results()] == [1, 2]
    assert [[*store.sizes(table)] for table in ("progress", "held")] == [[], [("h", 2)]]
    assert list(store.progress()) == []


def test_tables_that_have_no_rows_cost_no_statements(postgres):
    """Deletions name only tables that had rows at the start, or were written since."""
    gone = changes_of(delete_operations=[1], delete_outcomes=[1])
    first = open_store(postgres.url)
    assert first._small.deleting(gone) + first._small.deleting_spreads() == []
    first.commit(changes_of(deadlines=[1, 1000], results=[1, bytearray(b"\x05")]))
    second = open_store(postgres.url)
    for store in (first, second):
        assert len(store._small.deleting(gone) + store._small.deleting_spreads()) == 2
        store.close()
