"""The tables of `purgatory top`."""

import pytest

from purgatory.cli.top_tables import HEAD, HELP, KINDS, QUIT, SORT, SORTS, TABLES, sorted_kinds
from purgatory.service import Client
from purgatory.service.job_messages import JOB_STATES, KindOverview
from tests.testing.purgatory_harness import HANG


@pytest.mark.parametrize("key", TABLES)
def test_a_table_of_jobs(server, key):
    """Each has the jobs of its state, short; without any it has no rows."""
    with Client(server.address, name="shop", timeout=HANG) as client:
        client.schedule(3600, kind="mail", job_id="i" * 60)
        client.schedule(7200, kind="mail", job_id="later")
        rows = TABLES[key].rows(client)
    if TABLES[key].state != "scheduled":
        assert rows == []
        return
    assert [row[0] for row in rows] == ["i" * 15 + "…", "later"]
    assert all(len(row) == len(HEAD) for row in rows)
    assert rows[1][1:4] == ("mail", "in 1 h", "0")


def test_each_key_is_told():
    """And has one meaning."""
    keys = [*TABLES, KINDS, SORT, QUIT]
    assert len({*keys}) == len(keys)
    told = [part.split()[0] for text in HELP.split(";") for part in text.split(",")]
    assert sorted(told) == sorted(keys)


def test_orders_of_kinds():
    """Each state may come first, or the name."""
    counts = {"b": {"dead": 3, "ready": 1}, "a": {"ready": 2}, "c": {"dead": 1, "running": 4}}
    kinds = [
        KindOverview(name, tuple(some.get(state, 0) for state in JOB_STATES), 0, name != "a")
        for name, some in counts.items()
    ]
    found = {by: "".join(kind.kind for kind in sorted_kinds(kinds, by)) for by in SORTS}
    assert found["trouble"] == "bac"
    assert found["ready"] == "abc"
    assert found["dead"] == "bca"
    assert found["running"][0] == "c"
    assert found["kind"] == "abc"
