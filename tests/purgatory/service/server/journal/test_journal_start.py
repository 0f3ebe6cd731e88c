"""What the journal gets at a start: what it has missed, and no number that it has already."""

import shutil

import pyarrow.dataset
import pytest

from purgatory.service.server.journal.parquet_sink import ParquetSink
from tests.testing.purgatory_harness import HANG


class Service:
    """A server with a journal, from time to time; both outlive it."""

    def __init__(self, directory, serve, connect):
        self.data, self.journal = directory / "data", directory / "journal"
        self.serve = serve
        self.connect = connect

    def run(self, *names):
        """Submit, extend and complete an operation of each name, in a run of a server."""
        sink = ParquetSink(self.journal, seconds=1e6)
        server = self.serve({"sink": sink}, data_dir=self.data)
        with self.connect(server) as client:
            for name in names:
                future = client.defer(name, timeout=1000, op_id=name)
                client.extend(name, 2000)
                client.complete(name, hold=1000)
                future.result(HANG)
        server.close()

    def ids(self, table, column="op_id"):
        """Return what a column of the journal has, in order."""
        found = pyarrow.dataset.dataset(
            self.journal / table, format="parquet", partitioning="hive"
        ).to_table()
        return sorted(found.column(column).to_pylist())

    def check(self, names):
        """Check that each table has a row of each of these operations."""
        for table in ("operations", "outcomes", "extensions"):
            assert self.ids(table) == names, table
        assert self.ids("events", "key") == names


@pytest.fixture
def service(tmp_path, serve, connect):
    return Service(tmp_path, serve, connect)


def test_a_database_that_has_lost_its_end(service, tmp_path, caplog):
    """The journal keeps all rows, gets each later one, and the log says what was lost."""
    service.run("a")
    shutil.copytree(service.data, tmp_path / "before")
    service.run("b", "c")
    service.check(["a", "b", "c"])
    shutil.rmtree(service.data)
    shutil.copytree(tmp_path / "before", service.data)
    service.run("d", "e", "f")
    for table, first, last in (("operations", 2, 3), ("outcomes", 2, 3), ("events", 2, 3)):
        assert f"the database has lost {table} {first} to {last}, which" in caplog.text
    service.run("g")
    service.check(["a", "b", "c", "d", "e", "f", "g"])


def test_a_journal_that_has_less(service, caplog):
    """What was committed without it, it gets at the next start, once."""
    service.run("a")
    before = sorted(service.journal.rglob("*.parquet"))
    service.run("b", "c")
    for path in set(service.journal.rglob("*.parquet")) - set(before):
        path.unlink()
    service.run("d")
    assert service.ids("operations") == ["a", "b", "c", "d"]
    assert service.ids("outcomes") == ["a", "b", "c", "d"]
    assert "has lost" not in caplog.text
