"""The store: durable commits, numbers that are given once, and errors of the disk."""

import contextlib
import os
import random
import shutil
import sqlite3
from functools import partial
from pathlib import Path

import pytest
from msgspec import Raw

from purgatory import StoreError
from purgatory.service.store.contract import DATABASE_ID
from purgatory.service.store.rows import MAX_BATCH, OperationBatch
from purgatory.service.store.sqlite.schema import SCHEMA_VERSION
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from tests.testing.changes import changes_of
from tests.testing.failing_disk import DiskFaults
from tests.testing.store_reads import READS, REMEMBERED


def batch(*numbers):
    """Return a batch of consecutive operations."""
    items = [[f"op-{number}", ["k"], 999, 1, "kind", Raw(b"\x01")] for number in numbers]
    return [OperationBatch(numbers[0], "c", 1, items)]


def batches(numbers):
    """Return as many batches as the operations need."""
    return [
        one
        for start in range(numbers.start, numbers.stop, MAX_BATCH)
        for one in batch(*range(start, min(start + MAX_BATCH, numbers.stop)))
    ]


def outcome(seq, number):
    return [seq, number, "completed", 5, 0, "k", b"\x02"]


@pytest.fixture
def store(tmp_path):
    opened = SqliteStore(tmp_path / "a.db")
    yield opened
    opened.close()


def again(tmp_path):
    return SqliteStore(tmp_path / "a.db")


#: Where a table is empty SQLite is not asked.
_NOT_ASKED = {"results", "job_rows", "attempts", "read"}


@pytest.mark.parametrize("name", sorted((READS.keys() | REMEMBERED.keys()) - _NOT_ASKED))
def test_a_read_that_fails(store, name):
    """Each says which database it is, and what is wrong."""
    read = getattr(store, name, None) or getattr(store.remembered, name)
    store._connection.close()
    with pytest.raises(StoreError, match=r"a\.db: .* closed database"):
        list(read(*(READS | REMEMBERED)[name]))


def test_times_of_jobs_are_moved(store):
    """When they are tried again; not of one that is ready at once, which has no time."""
    store.commit(changes_of(jobs=[1, 1, 2, 500, "E"]))
    store.commit(changes_of(jobs=[2, 1, 2, 0, "E"]))
    store.shift_times(-50, {})
    assert [job.at_ms for job in store.jobs()] == [450, 0]


def test_the_last_event_is_of_the_present_clock(store):
    """What the journal is to get keeps its times; those from before can be left out."""
    store.commit(changes_of(queued_events=[1, "k", 5000, 0, 0]))
    assert store.last_event_ms(0) == 5000
    store.shift_times(-3000, {})
    assert store.last_event_ms(1) is None
    assert store.queued_events(0) == [(1, "k", 5000, 0, 0)]
    store.commit(changes_of(queued_events=[2, "k", 2001, 0, 0]))
    assert store.last_event_ms(1) == 2001


def test_in_memory():
    """Without a path the database is in memory."""
    store = SqliteStore(None)
    store.commit(changes_of(operations=batch(1)))
    assert len(list(store.operations())) == 1
    store.close()


def test_a_file_that_is_no_database(tmp_path):
    """It is a fatal error, and the file is left as it is."""
    (tmp_path / "a.db").write_bytes(b"a letter to a friend, which is long enough" * 100)
    with pytest.raises(StoreError, match=r"a\.db.*not a database") as caught:
        again(tmp_path)
    assert caught.value.fatal
    assert (tmp_path / "a.db").read_bytes().startswith(b"a letter")


def test_a_damaged_database(tmp_path):
    """It is an error to open it."""
    store = again(tmp_path)
    store.commit(changes_of(operations=batches(range(1, 3000))))
    store.close()
    with (tmp_path / "a.db").open("r+b") as file:
        file.seek(3 * 4096)
        file.write(os.urandom(20 * 4096))
    with pytest.raises(StoreError, match=r"a\.db"):
        again(tmp_path)


def test_a_database_of_another_version(tmp_path):
    """A database of another version or program is an error."""
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE songs (title)")
    connection.close()
    with pytest.raises(StoreError, match=f"schema version is 0; expected 1 to {SCHEMA_VERSION}"):
        again(tmp_path)


def test_a_directory_that_is_not_there(tmp_path):
    """It is an error that names the file."""
    with pytest.raises(StoreError, match=r"nowhere/a\.db: cannot open"):
        SqliteStore(tmp_path / "nowhere" / "a.db")


def test_a_locked_database(store, tmp_path):
    """Another process's lock fails one commit; later ones succeed."""
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked") as caught:
        store.commit(changes_of(operations=batch(1)))
    assert not caught.value.fatal
    other.execute("ROLLBACK")
    other.close()
    store.commit(changes_of(operations=batch(1)))
    assert len(list(store.operations())) == 1


@pytest.mark.parametrize("step", range(6))
def test_a_failure_at_any_step_of_a_commit_leaves_nothing(tmp_path, step):
    """All or nothing is written, and the next commit succeeds."""
    faults = DiskFaults()
    store = SqliteStore(tmp_path / "a.db", connect=faults.connect)
    changes = changes_of(operations=batch(1, 2), progress=[1, "k", b""], outcomes=outcome(1, 2))
    faults.fail_at(step)
    if step == 5:  # BEGIN, a row of each, COMMIT
        store.commit(changes)
        faults.clear()
    else:
        with pytest.raises(StoreError, match="database or disk is full") as caught:
            store.commit(changes)
        assert not caught.value.fatal
        faults.clear()
        assert (
            list(store.operations())
            == list(store.outcomes_without_results())
            == list(store.progress())
            == []
        )
        store.commit(changes)
    assert len(list(store.operations())) == 2
    store.close()


@pytest.mark.parametrize("table", ["operations", "outcomes"])
def test_one_row_is_one_statement(tmp_path, table):
    """A batch, or an outcome, that comes alone is a transaction by itself: all or nothing."""
    faults = DiskFaults()
    store = SqliteStore(tmp_path / "a.db", connect=faults.connect)
    rows = {"operations": batch(1, 2), "outcomes": outcome(1, 1)}[table]
    read = {"operations": "operations", "outcomes": "outcomes_without_results"}[table]
    if table == "outcomes":
        store.commit(changes_of(operations=batch(1)))
    faults.fail_at(0)
    with pytest.raises(StoreError, match="database or disk is full"):
        store.commit(changes_of(**{table: rows}))
    faults.clear()
    assert list(getattr(store, read)()) == []
    faults.fail_at(1)  # the second statement, which there is not
    store.commit(changes_of(**{table: rows}))
    faults.clear()
    again = SqliteStore(tmp_path / "a.db")
    assert list(getattr(again, read)()) == list(getattr(store, read)()) != []
    again.close()
    store.close()


def test_every_commit_is_synced(store):
    """SQLite is set to sync each commit."""
    run = store._connection.execute
    assert run("PRAGMA journal_mode").fetchone() == ("wal",)
    assert run("PRAGMA synchronous").fetchone() == (2,)  # FULL


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
def test_all_files_are_in_the_directory_of_the_database(store, tmp_path):
    """A large transaction needs no other: the root file system may be read-only."""
    opened = set()

    def look(_):
        for descriptor in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                opened.add(str(descriptor.readlink()))

    look("")
    before = set(opened)
    store._connection.set_trace_callback(look)
    seqs = random.Random(0).sample(range(1 << 40), 4000)
    store.commit(changes_of(jobs=[value for seq in seqs for value in (seq, 1, 1, 0, "e" * 200)]))
    files = {each for each in opened - before if each.startswith("/") and "/proc/" not in each}
    assert files <= {str(tmp_path / f"a.db{end}") for end in ("", "-wal", "-shm")}


def test_the_log_stays_short(store, tmp_path):
    """However much is written: the commit that moves it into the database keeps clients waiting."""
    payload = Raw(b"\xc5\xff\xff" + bytes(0xFFFF))
    for number in range(1, 500):
        items = [[f"op-{number}", ["k"], 999, 1, "kind", payload]]
        store.commit(changes_of(operations=[OperationBatch(number, "c", 1, items)]))
    assert 4 << 20 < (tmp_path / "a.db-wal").stat().st_size < 12 << 20


@pytest.mark.parametrize("seed", range(5))
def test_a_torn_log_holds_whole_commits(tmp_path, seed):
    """Commits before the torn part are there, and none is there in part."""
    dice = random.Random(seed)
    group = 50
    store = SqliteStore(tmp_path / "a.db")
    sizes = []  # of the log's content, after each commit
    for start in range(1, 10 * group, group):
        rows = batches(range(start, start + group))
        store.commit(changes_of(operations=rows, outcomes=outcome(start, start)))
        sizes.append(written((tmp_path / "a.db-wal").read_bytes()))
    for number in range(8):
        torn = tmp_path / f"torn-{number}"
        torn.mkdir()
        shutil.copy(tmp_path / "a.db", torn)
        log = bytearray((tmp_path / "a.db-wal").read_bytes())
        cut = dice.randrange(sizes[-1])
        if number % 2:
            del log[cut:]  # the file had not grown yet
        else:
            log[cut:] = dice.randbytes(len(log) - cut)  # or has other data there
        (torn / "a.db-wal").write_bytes(log)
        again = SqliteStore(torn / "a.db")
        whole = sum(size <= cut for size in sizes)
        assert [row.number for row in again.operations()] == list(range(1, whole * group + 1))
        assert len(list(again.outcomes_without_results())) == whole
        again.close()
    store.close()


def written(log):
    """Return the size of a log without the zeros that extend it: a header and frames."""
    header, frame = 32, 24 + 4096
    return header + -(-(len(log.rstrip(b"\0")) - header) // frame) * frame


def test_an_input_output_error_is_fatal(tmp_path):
    """After it, it is not known what is on the disk."""
    faults = DiskFaults()
    store = SqliteStore(tmp_path / "a.db", connect=faults.connect)
    faults.fail_at(0, code=sqlite3.SQLITE_IOERR, message="disk I/O error")
    with pytest.raises(StoreError, match="disk I/O error") as caught:
        store.commit(changes_of(operations=batch(1)))
    assert caught.value.fatal
    faults.clear()
    store.close()


def test_a_log_that_was_cut_off_is_fatal(store):
    """The commit, and every one after it: what it wrote may be gone."""
    store._wal_preallocator.extend_if_full = lambda: False
    for _ in range(2):
        with pytest.raises(StoreError, match=r"a\.db-wal: it was cut off") as caught:
            store.commit(changes_of(operations=batch(1)))
        assert caught.value.fatal


def test_a_rollback_that_fails(tmp_path):
    """A failing rollback is a fatal error, with that of the commit."""
    faults = DiskFaults()
    store = SqliteStore(tmp_path / "a.db", connect=faults.connect)
    faults.fail_at(1, 2)
    with pytest.raises(StoreError, match="full") as caught:
        store.commit(changes_of(operations=batch(1), outcomes=outcome(1, 1)))
    assert caught.value.fatal
    faults.clear()
    store.close()


def test_a_database_has_an_id(tmp_path):
    """Its id is the same each time it is opened, and different from any other's."""
    names = []
    for path in (tmp_path / "one.db", tmp_path / "one.db", tmp_path / "two.db", None):
        store = SqliteStore(path)
        names.append(store.metadata()[DATABASE_ID])
        store.close()
    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_rows_have_their_recorded_bytes(store):
    """A database of an earlier build is read by this one, and the other way round."""
    submissions = [
        ("a", ("k", "l"), 1500, 2, "pay", Raw(b"\x07")),
        ("b", ("k",), 5, 1, "", Raw(b"\xc0")),
    ]
    store.commit(
        changes_of(
            operations=[OperationBatch(1, "c", 100, submissions)],
            progress=[1, "k", b"\x07"],
            outcomes=[1, 2, "expired", 105, 1, "", ""],
        )
    )
    packed = "9296a16192a16ba16ccd05dc02a37061790796a16291a16b0501a0c0"
    assert rows(store, "batches") == [(1, 2, 2, "c", 100, None, bytes.fromhex(packed))]
    assert rows(store, "progress") == [(1, "k", b"\x07")]
    assert rows(store, "outcomes") == [(1, 2, "expired", 105, 1, None, None)]
    store.shift_times(50, {})
    packed = "9297a16192a16ba16ccd05dc02a3706179070097a16291a16b0501a0c0d0ce"
    assert rows(store, "batches") == [(1, 2, 2, "c", 150, None, bytes.fromhex(packed))]
    store.commit(changes_of(delete_operations=[2], delete_outcomes=[1]))
    packed = "9197a16192a16ba16ccd05dc02a37061790700"
    assert rows(store, "batches") == [(1, 2, 1, "c", 150, b"\x91\x01", bytes.fromhex(packed))]
    assert {key for key, _ in rows(store, "meta")} == {"last", "source"}


def rows(store, table):
    return store._connection.execute(f"SELECT * FROM {table}").fetchall()


class NoIndex(sqlite3.Connection):
    """A connection on a full disk: there is no room for the file that indexes the log."""

    def execute(self, sql, *args):
        if sql == "PRAGMA journal_mode=WAL" and self.mode() == "normal":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
            raise error
        return super().execute(sql, *args)

    def mode(self):
        """Return the mode in which it locks the file."""
        return super().execute("PRAGMA locking_mode").fetchone()[0]


def test_a_full_disk_without_room_for_the_index(tmp_path, caplog):
    """The index is in memory: what is there is read, and written once there is room."""
    SqliteStore(tmp_path / "a.db").close()
    store = SqliteStore(tmp_path / "a.db", connect=partial(sqlite3.connect, factory=NoIndex))
    assert store._connection.mode() == "exclusive"
    assert "the disk is full" in caplog.text
    assert not (tmp_path / "a.db-shm").exists()
    store.commit(changes_of(operations=batch(1)))
    store.close()
    again(tmp_path).close()


def test_what_a_start_says(tmp_path):
    """That it checks the database, which may take long, of any size and each time."""
    for _ in range(2):
        told = []
        SqliteStore(tmp_path / "a.db", note=told.append).close()
        assert told[-1] == "the database is checked"
