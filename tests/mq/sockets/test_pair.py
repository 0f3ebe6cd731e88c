"""PAIR: one peer at a time."""

import pytest

import mq as zmq

URL = "inproc://pipeline"


def test_pair_is_exclusive(socket):
    """A PAIR keeps its first connection; others are ended, and do not disturb it."""
    bound, first, second = (socket(zmq.PAIR, sndtimeo=0) for _ in range(3))
    bound.bind(URL)
    first.connect(URL)
    bound.get(zmq.EVENTS)
    second.connect(URL)
    bound.get(zmq.EVENTS)
    while second._core._pipes:
        second.get(zmq.EVENTS)
        bound.get(zmq.EVENTS)
    with pytest.raises(zmq.Again):
        second.send(b"x")
    first.send(b"y")
    assert bound.recv() == b"y"
    bound.send(b"z")
    assert first.recv() == b"z"


def test_pair_takes_another_peer_after_the_first(socket):
    """When its peer has gone, a PAIR takes the next; without one it blocks."""
    bound, first = socket(zmq.PAIR, sndtimeo=0), socket(zmq.PAIR)
    bound.bind(URL)
    first.connect(URL)
    first.send(b"bye")
    first.close()
    assert bound.recv() == b"bye"
    while not first._core.destroyed:
        bound.get(zmq.EVENTS)
    with pytest.raises(zmq.Again):
        bound.send(b"x")
    second = socket(zmq.PAIR)
    second.connect(URL)
    bound.send(b"hello")
    assert second.recv() == b"hello"
