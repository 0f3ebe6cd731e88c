"""The journal of a server that is killed at random moments has every row exactly once."""

import random
import threading
from collections import Counter

import pyarrow.dataset
import pytest

from purgatory.service import Client
from purgatory.trace import Extension, KeyEvent, Operation
from tests.testing import oracle
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess, outcome_of

ROUNDS = 5
COMPARED = ("outcome", "at_ms", "by_key", "deadline_ms")


def rows(directory, table):
    """Return all rows of a table of the journal."""
    found = pyarrow.dataset.dataset(directory / table, format="parquet", partitioning="hive")
    return found.to_table().to_pylist()


@pytest.mark.timeout(240)
def test_each_row_once(tmp_path):
    """The journal agrees with the outcomes that the client got, and resolves to them."""
    rng = random.Random(5)
    pause = threading.Event()
    server = ServerProcess(tmp_path, "--journal-seconds", "0.02")
    server.start()
    futures = {}
    with Client(server.address, name="owner", timeout=HANG) as client:
        for round_ in range(ROUNDS):
            for n in range(300):
                key = f"{round_}-{n}"
                futures[key] = client.defer(key, timeout=rng.choice((0.01, 0.2, HANG)), op_id=key)
                if rng.random() < 0.5:
                    client.complete_later(f"{round_}-{rng.randint(0, n)}", n)
                if rng.random() < 0.2:
                    client.extend_later(f"{round_}-{rng.randint(0, n)}", rng.choice((0.05, HANG)))
                if rng.random() < 0.2:
                    early = f"{round_ + rng.randint(0, 1)}-{rng.randint(0, 299)}"
                    client.complete_later(early, n, hold=rng.choice((0.02, HANG)))
                if rng.random() < 0.05:
                    client.fail_later(f"{round_}-{rng.randint(0, n)}", ValueError)
                if rng.random() < 0.1:
                    client.cancel_later(f"{round_}-{rng.randint(0, n)}")
            pause.wait(rng.random() * 0.3)
            server.kill()
            server.start()
        for key in futures:
            client.complete_later(key)
        client.flush(HANG)
        outcomes_seen = {key: outcome_of(future) for key, future in futures.items()}
    code, errors = server.end()
    assert (code, errors) == (0, "")
    server.process.stdout.close()
    server.process.stderr.close()
    journal = tmp_path / "journal"
    operations = Counter(row["op_id"] for row in rows(journal, "operations"))
    assert operations == Counter(list(futures))
    outcomes = rows(journal, "outcomes")
    assert Counter(row["op_id"] for row in outcomes) == Counter(list(futures))
    assert {row["op_id"]: row["outcome"] for row in outcomes} == outcomes_seen
    assert not list(journal.rglob(".unfinished*"))
    assert resolved(journal) == {
        row["op_id"]: tuple(row[name] for name in COMPARED)
        for row in outcomes
        if row["outcome"] != "cancelled"
    }


def resolved(journal):
    """Return how operations, events and extensions resolve, without those that were cancelled."""
    tables = {"operations": Operation, "events": KeyEvent, "extensions": Extension}
    trace = [
        [kind(*(row[name] for name in kind._fields)) for row in rows(journal, table)]
        for table, kind in tables.items()
    ]
    assert all(trace)
    cancelled = {row["op_id"] for row in rows(journal, "outcomes") if row["outcome"] == "cancelled"}
    return {
        row.op_id: tuple(getattr(row, name) for name in COMPARED)
        for row in oracle.resolve(*trace)
        if row.op_id not in cancelled
    }
