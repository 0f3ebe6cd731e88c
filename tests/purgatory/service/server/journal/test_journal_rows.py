"""Rows for the journal, of a transaction and from the store."""

import pytest

from tests.testing.step_server import RecordingSink, StepServer, job, operation


@pytest.fixture
def server(tmp_path):
    server = StepServer(tmp_path / "a.db", sink=RecordingSink())
    server.hello()
    yield server
    server.store.close()


def test_the_store_has_the_same_rows(server):
    """A journal that lost all gets from the store what the transactions wrote.

    A job is no operation: it has a row when it has ended.
    """
    server.submit(operation("a", "k", "l", need=2), operation("b", kind="pay"), job("j"))
    server.extend("b", 5000)
    server.complete("k")
    server.pass_time(1500)
    server.fail("b's key")
    [leased] = server.work()
    server.finish(leased)
    before = server.sink
    assert [row.need for row in before.operations] == [2, 1]
    waited = {row.op_id: row.waited_ms for row in before.outcomes}
    assert waited == {"a": 1000, "b": 1500}
    assert {row.op_id: row.lateness_ms for row in before.outcomes} == {"a": 500, "b": 0}
    assert [(row.key, row.failed) for row in before.events] == [("k", False), ("b's key", True)]
    server.sink = RecordingSink()
    server.crash()
    server.step()
    assert server.sink.operations == before.operations
    assert server.sink.outcomes == before.outcomes
    assert server.sink.events == before.events
    assert server.sink.extensions == before.extensions
    assert server.sink.jobs == before.jobs
    assert [row.job_id for row in before.jobs] == ["j"]
