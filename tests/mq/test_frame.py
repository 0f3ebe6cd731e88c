"""Frames, trackers, buffers, and the conversions of the socket's methods."""

import pytest

import mq as zmq


def test_views():
    """A frame has bytes, a buffer and a length, and is a buffer itself."""
    frame = zmq.Frame(b"hello")
    assert (frame.bytes, len(frame), bytes(frame)) == (b"hello", 5, b"hello")
    assert frame.bytes is frame.bytes
    assert frame.buffer is frame.buffer
    assert memoryview(frame).tobytes() == b"hello"
    assert frame != zmq.Frame(b"hello")
    assert len({frame, frame, zmq.Frame(b"hello")}) == 2


def test_repr_shows_the_beginning_and_the_size():
    """Long frames are abbreviated."""
    assert str(zmq.Frame(b"abc")) == "<zmq.Frame(b'abc')>"
    assert str(zmq.Frame(b"x" * 2000)) == "<zmq.Frame(b'xxxxxxxxxxxx'...2kB)>"


def test_what_is_no_buffer_is_refused():
    """str and other objects are a TypeError, gaps a BufferError."""
    for bad in ("str", 5, object()):
        with pytest.raises(TypeError):
            zmq.Frame(bad)
    with pytest.raises(BufferError):
        zmq.Frame(memoryview(b"abcd")[::2])
