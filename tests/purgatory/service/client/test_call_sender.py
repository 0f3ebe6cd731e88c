"""What all calls of a client have in common."""

import pytest
from msgspec import Raw

from purgatory.service.client.call_sender import packed_value
from purgatory.service.encoding import encode
from purgatory.service.protocol import NOTHING, Complete, Completion


def test_packed_values():
    """None is no value; what MessagePack has no form for is refused."""
    assert packed_value(None) == Raw(NOTHING)
    assert bytes(packed_value({"a": 1})) == encode({"a": 1})
    with pytest.raises(TypeError):
        packed_value(object())


def test_ids(server, connect):
    """Those of one client differ, and from those of another."""
    clients = [connect(server) for _ in range(2)]
    ids = {client._next_id() for client in clients for _ in range(100)}
    assert len(ids) == 200


def test_a_call(server, connect):
    """Its future gets the answer."""
    client = connect(server)
    future = client.defer("k")
    client.flush()
    assert client._call(Complete, Completion("k")).result(10) == 1
    assert future.result(10) is None
