"""Strings, JSON, pickles and serializers of a program."""

import pytest

import mq as zmq


def test_conversions(pair):
    """Strings, objects, JSON and own serializers go both ways."""
    a, b = pair(zmq.PAIR, zmq.PAIR)
    a.send_string("é")
    assert b.recv_string() == "é"
    a.send_json({"a": [1, None]})
    assert b.recv_json() == {"a": [1, None]}
    a.send_pyobj({1: (2, 3)})
    assert b.recv_pyobj() == {1: (2, 3)}
    a.send_serialized("a b", lambda text: [word.encode() for word in text.split()])
    assert b.recv_serialized(lambda parts: b"+".join(parts)) == b"a+b"
    with pytest.raises(TypeError):
        a.send("str")
    with pytest.raises(TypeError, match="Frame 1"):
        a.send_multipart([b"x", 5])
    assert b.poll(0) == 0
