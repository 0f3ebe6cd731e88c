"""Copies from SQLite to PostgreSQL and back: all is there, and no server uses either meanwhile."""

import time
from contextlib import closing

import pytest

from purgatory.errors import StoreError
from purgatory.service import ServerError
from purgatory.service.platform import boot_ns
from purgatory.service.server.clock import NS_PER_MS
from purgatory.service.store.contract import DATABASE_ID, UNFINISHED_COPY
from purgatory.service.store.data_directory import data_directory_lock
from purgatory.service.store.lease import ClockReading
from purgatory.service.store.postgres.lease_row import PostgresLeaseRow
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from purgatory.service.store_copy import ends
from purgatory.service.store_copy.copier import StoreCopier
from purgatory.service.store_copy.ends import CopyLease, copy_store, is_url
from tests.testing.held_lease import open_store, take_over
from tests.testing.random_commits import RandomCommits, everything


def fill(directory, seed, commits=20):
    """Make a data directory; returns what its store has."""
    directory.mkdir(mode=0o700)
    made = RandomCommits(seed)
    with closing(SqliteStore(directory / "purgatory.db")) as store:
        for _ in range(commits):
            store.commit(made.changes())
        store.set_metadata({"lease_epoch": 7, "acknowledged": b"\x80"})
        return everything(store), store.metadata()[DATABASE_ID]


def release(url):
    """Have no server hold the lease, as after a clean stop."""
    lease = take_over(url)
    row = PostgresLeaseRow(url, "", lease.holder, "", timeout_s=30)
    assert row.release(ClockReading(row.look().clock_ms))
    row.close()


@pytest.mark.parametrize("seed", range(3))
def test_there_and_back(postgres, tmp_path, seed):
    """Each has all that the first one had, and the same identity."""
    first, identity = fill(tmp_path / "one", seed)
    noted = []
    copied = copy_store(str(tmp_path / "one"), postgres.url, "", noted.append)
    assert copied.operations == len(first["operations"])
    assert copied.outcomes == len(first["outcomes"])
    assert noted == sorted(noted) != []
    with closing(open_store(postgres.url)) as store:
        assert everything(store) == first
        metadata = store.metadata()
        assert (metadata[DATABASE_ID], metadata["lease_epoch"]) == (identity, 7)
        assert metadata["acknowledged"] == b"\x80"
    release(postgres.url)
    assert copy_store(postgres.url, str(tmp_path / "two"), "") == copied
    with closing(SqliteStore(tmp_path / "two" / "purgatory.db")) as store:
        assert everything(store) == first
        assert store.metadata()[DATABASE_ID] == identity


def test_a_partition(postgres, tmp_path):
    """It has a schema of its own, which the others do not see."""
    first, _ = fill(tmp_path / "one", 1)
    copy_store(str(tmp_path / "one"), postgres.url, "orders")
    with closing(open_store(postgres.url, "orders")) as store:
        assert everything(store) == first
    with closing(open_store(postgres.url)) as store:
        assert list(store.operations()) == []


def test_the_clock_goes_on(postgres, tmp_path):
    """The service time of the data moves with them, whatever this machine's clock says."""
    fill(tmp_path / "one", 1)
    copy_store(str(tmp_path / "one"), postgres.url)
    now_ms = time.time_ns() // NS_PER_MS
    [(clock_ms,)] = postgres.execute("SELECT clock_ms FROM purgatory.lease")
    assert abs(clock_ms - now_ms) < 60_000
    postgres.execute("UPDATE purgatory.lease SET clock_ms = clock_ms - 7200000")
    copy_store(postgres.url, str(tmp_path / "two"))
    with closing(SqliteStore(tmp_path / "two" / "purgatory.db")) as store:
        metadata = store.metadata()
        found = (metadata["offset_ns"] + boot_ns()) // NS_PER_MS
        assert abs(found - (now_ms - 7_200_000)) < 60_000
        assert abs(metadata["drift_ms"] - 7_200_000) < 60_000


class TestRefusals:
    def test_a_target_with_something(self, postgres, tmp_path):
        """Nothing is changed."""
        fill(tmp_path / "one", 1)
        copy_store(str(tmp_path / "one"), postgres.url)
        with pytest.raises(StoreError, match="is not empty"):
            copy_store(str(tmp_path / "one"), postgres.url)
        with pytest.raises(StoreError, match="expected a new or empty directory"):
            copy_store(postgres.url, str(tmp_path / "one"))
        with closing(open_store(postgres.url)) as store:
            assert not store.metadata()[UNFINISHED_COPY]

    def test_a_server_has_it(self, postgres, tmp_path):
        """The lock of the directory, and the lease, say so."""
        fill(tmp_path / "one", 1)
        with (
            data_directory_lock(tmp_path / "one"),
            pytest.raises(ServerError, match="another server has its data there"),
        ):
            copy_store(str(tmp_path / "one"), postgres.url)
        take_over(postgres.url)
        with pytest.raises(StoreError, match="a server has the store: tcp://test:1; stop it"):
            copy_store(str(tmp_path / "one"), postgres.url)
        with pytest.raises(StoreError, match="a server has the store: tcp://test:1; stop it"):
            copy_store(postgres.url, str(tmp_path / "two"))
        assert not (tmp_path / "two").exists()

    def test_nothing_to_copy(self, postgres, tmp_path):
        """No directory is made."""
        with pytest.raises(StoreError, match="there is no such database"):
            copy_store(str(tmp_path / "one"), postgres.url)
        assert not (tmp_path / "one").exists()

    def test_no_such_partition(self, postgres, tmp_path):
        """A wrong name of the source is refused; neither a schema nor a directory is made."""
        with pytest.raises(StoreError, match="no tables in the schema purgatory_order"):
            copy_store(postgres.url, str(tmp_path / "one"), "order")
        assert not postgres.execute("SELECT FROM pg_namespace WHERE nspname = 'purgatory_order'")
        assert not (tmp_path / "one").exists()

    def test_a_server_takes_over_meanwhile(self, postgres, tmp_path, monkeypatch):
        """The copy ends, and no server starts with half of it."""
        fill(tmp_path / "one", 1)
        monkeypatch.setattr(ends, "_BEAT_S", 0)
        with pytest.raises(StoreError):
            copy_store(str(tmp_path / "one"), postgres.url, "", lambda _: take_over(postgres.url))
        with pytest.raises(StoreError, match="was not finished; drop the schema"):
            open_store(postgres.url)

    def test_a_copy_that_fails(self, postgres, tmp_path, monkeypatch):
        """A new directory is gone; a database says what to do, and is free for another copy."""
        fill(tmp_path / "one", 1)

        def fail(self):
            raise StoreError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(StoreCopier, "_copy_small", fail)
            with pytest.raises(StoreError, match="full"):
                copy_store(str(tmp_path / "one"), postgres.url)
        with pytest.raises(StoreError, match="was not finished; drop the schema"):
            open_store(postgres.url)
        postgres.execute("DROP SCHEMA purgatory CASCADE")
        copy_store(str(tmp_path / "one"), postgres.url)
        with monkeypatch.context() as patch:
            patch.setattr(StoreCopier, "_copy_small", fail)
            with pytest.raises(StoreError, match="full"):
                copy_store(postgres.url, str(tmp_path / "two"))
        assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_urls():
    """Anything else is a directory."""
    assert is_url("postgresql://a/b")
    assert is_url("postgres://a/b")
    assert not is_url("postgresql")


def test_the_lease_of_a_copy(postgres):
    """It goes on by the lease's clock, or by the one that it brings along."""
    row = PostgresLeaseRow(postgres.url, "", "a", "", timeout_s=30)
    row.set_up()
    taken = row.raise_epoch(row.look())
    row.close()
    lease = CopyLease("a", taken)
    assert taken.clock_ms <= lease.now_ms() < taken.clock_ms + 60_000
    lease.raised(9)
    assert lease.epoch == 9
    assert CopyLease("a", taken, lambda: 77).now_ms() == 77
