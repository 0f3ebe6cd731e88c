"""What the store remembers is read as it was."""

import pytest

from purgatory.service.encoding import encode, unpack
from purgatory.service.protocol import Query, ReadOperations
from purgatory.service.server.reads.remembered_answers import RememberedReader
from tests.purgatory.service.server.transactions.test_remembering import DAY_MS, KEPT_MS, end
from tests.testing.step_server import job


@pytest.fixture
def server(step_server):
    """A server that remembers the operations "a" and "b"."""
    end(step_server, "a", "b")
    step_server.before = step_server.query("a")
    step_server.pass_time(KEPT_MS)
    return step_server


@pytest.fixture
def reader(server):
    return RememberedReader(server.state, server.store)


def test_an_operation(server, reader):
    """Its state is that of a query before; its outcome has the number that it had."""
    found = reader.find("a")
    assert (found.op_id, found.client.name, found.outcome) == ("a", "c", "completed")
    assert not found.is_job
    assert reader.operation("a") == server.before
    assert reader.job(found) is None
    [outcome] = reader.outcomes([found])
    assert (outcome.number, outcome.op_id, outcome.outcome) == (found.seq, "a", "completed")
    assert unpack(outcome.result) == 5
    assert outcome.at_ms == server.before.at_ms


def test_who_sees_it(reader):
    """Its client, and those that see all."""
    assert reader.find("a", "c") is not None
    assert reader.find("a", "another") is None
    assert reader.find("c") is None


def test_ids_of_one_hash(server, reader, monkeypatch):
    """The row has the whole id: another with the same hash is not found."""
    hashed = server.state.remembered.hash_of("a")
    monkeypatch.setattr(type(server.state.remembered), "hash_of", lambda _self, _op_id: hashed)
    assert reader.find("another") is None
    assert reader.find("a") is not None


def test_a_period_that_is_over(server, reader):
    """It is not found from the first millisecond on, though its row is there."""
    [row] = server.store.remembered.read(server.state.remembered.places("a"))
    found = reader.find("a")
    server.state.stamp.follow(row.until_ms - 1)
    assert reader.find("a") is not None
    server.state.stamp.follow(row.until_ms)
    assert reader.find("a") is None
    assert reader.operation("a") is None
    assert reader.outcomes([found]) != []
    server.pass_time(2 * DAY_MS)
    assert reader.outcomes([found]) == []


def test_a_job(step_server):
    """A query answers as right after the end: when, by which key, and with what result."""
    server, ids = step_server, ["done", "ready", "scheduled"]
    for job_id in ids:
        timeout_ms = 60_000 if job_id == "scheduled" else 0
        server.submit(job(job_id, "k", kind=job_id, timeout_ms=timeout_ms, unique_ms=DAY_MS))
    server.pass_time(5)
    [leased] = server.work("done")
    server.pass_time(5)
    server.finish(leased, result=encode(7))
    assert server.complete("k").counts == [2]
    before = server.ask(Query, ids).states
    assert [one.by_key for one in before] == [None, "k", "k"]
    assert [unpack(one.result) for one in before] == [7, None, None]
    assert {one.at_ms for one in before} == {server.time.ms}
    listed = server.ask(ReadOperations, 0, 10).states
    server.pass_time(KEPT_MS)
    assert not server.state.known
    assert before == listed == server.ask(Query, ids).states
