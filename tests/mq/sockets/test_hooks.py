"""What a socket type does its own way, and what it does if it says nothing."""

import pytest

import mq as zmq


def test_wrong_directions(socket):
    """A PUSH cannot receive, a PULL cannot send."""
    for call in (socket(zmq.PUSH).recv, lambda: socket(zmq.PULL).send(b"x")):
        with pytest.raises(zmq.ZMQError) as caught:
            call()
        assert caught.value.errno == zmq.ENOTSUP
