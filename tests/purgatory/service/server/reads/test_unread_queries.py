"""A server process that closes while one client has asked for much and reads nothing."""

import pytest
import zmq

from purgatory.service.encoding import encode
from purgatory.service.protocol import Complete, Completion, Query, Raw, Submit
from tests.testing.server_processes import ServerProcess
from tests.testing.servers import RawPeer
from tests.testing.step_server import operation

QUERIES = 5000


@pytest.fixture
def context():
    context = zmq.Context()
    yield context
    context.destroy(0)


def test_unread_queries_do_not_keep_a_server_from_closing(tmp_path, context):
    """It ends in time with 0, and does not say that anything is wrong with its disk."""
    with ServerProcess(tmp_path / "data", "--close-timeout", "5") as serve:
        one = RawPeer(context, serve.address, SNDHWM=0, RCVHWM=1)
        try:
            one.hello()
            ids = [f"o{n}" for n in range(500)]
            one.ask(Submit(1, [operation(op_id, "k", payload="x" * 1000) for op_id in ids]))
            one.send(Complete(2, [Completion("k", Raw(encode("v" * 1000)))]))
            for seq in range(QUERIES):
                one.send(Query(seq, ids))
            code, errors = serve.end()
            assert code == 0
            assert "ended" not in errors
            assert "disk" not in errors
        finally:
            one.socket.close(0)
