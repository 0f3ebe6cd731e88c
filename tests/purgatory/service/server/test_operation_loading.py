"""OperationLoading: what the store has of operations is in the state after a start."""

import pytest

from purgatory.errors import StoreError
from tests.testing.step_server import StepServer, operation


def fields(server):
    """Return what the state knows of each operation."""
    return {
        op_id: (one.number, one.client.name, one.kind, one.keys, one.need, one.bytes)
        for op_id, one in server.state.known.items()
    }


def test_operations_are_as_before(step_server):
    """Number, client, kind, keys and memory; the next number is new."""
    step_server.submit(operation("a", "x", "y", need=2, kind="pay"), operation("b", kind="pay"))
    step_server.complete("x", 1)
    before, memory = fields(step_server), step_server.state.pending_bytes
    step_server.crash()
    assert fields(step_server) == before
    assert step_server.state.pending_bytes == memory
    assert step_server.state.clients.by_name["c"].count == 2
    step_server.hello()
    step_server.submit(operation("c"))
    assert step_server.state.known["c"].number == 3


def test_what_was_deleted_between_others_is_not_loaded(step_server):
    """A batch has a gap then."""
    step_server.submit(*(operation(op_id) for op_id in "abc"))
    step_server.cancel("b")
    [outcome] = step_server.fetch_outcomes()
    step_server.acknowledge(outcome.number)
    step_server.crash()
    step_server.hello()
    assert {one for one in "abc" if step_server.query(one).state == "pending"} == {"a", "c"}


def test_an_id_that_is_there_twice_is_damage(tmp_path):
    """Two pending operations of one id cannot have been written."""
    server = StepServer(tmp_path / "a.db")
    server.submit(operation("a"))
    server.store._connection.execute(
        "INSERT INTO batches SELECT first + 5, last + 5, size, client, submitted_ms, numbers, "
        "operations FROM batches"
    )
    server.store._connection.commit()
    server.store.close()
    with pytest.raises(StoreError, match="'a' exists twice"):
        server.open()
