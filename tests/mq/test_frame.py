"""Frames, trackers, buffers, and the conversions of the socket's methods."""

import copy
import gc
from array import array

import pytest

import mq as zmq

URL = "inproc://frame"


@pytest.fixture
def pair(socket):
    """Two connected PAIRs."""
    a, b = socket(zmq.PAIR), socket(zmq.PAIR)
    a.bind(URL)
    b.connect(URL)
    return a, b


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


def test_sent_and_received_frames(pair):
    """copy=False gives Frames, with `more`; a frame can be sent again and again."""
    a, b = pair
    frame = zmq.Frame(b"part")
    a.send(frame, zmq.SNDMORE)
    a.send(frame)
    first, second = b.recv(copy=False), b.recv(copy=False)
    assert (first.bytes, first.more, second.more) == (b"part", True, False)
    assert (first.get(zmq.MORE), second.get(zmq.MORE)) == (1, 0)
    with pytest.raises(zmq.ZMQError):
        first.get("User-Id")


def test_buffers_are_sent_as_bytes(pair):
    """bytearray, memoryview and array arrive as bytes; what is changed later does not matter."""
    a, b = pair
    data = bytearray(b"hello")
    for thing in (data, memoryview(data), array("B", data)):
        a.send(thing)
    data[:] = b"other"
    assert [b.recv() for _ in range(3)] == [b"hello"] * 3


def test_large_buffers_are_shared_without_copy(pair):
    """With copy=False a large buffer is not copied on its way."""
    a, b = pair
    data = bytearray(100_000)
    a.send(data, copy=False)
    data[0] = 1
    assert b.recv()[0] == 1


def test_tracker(pair):
    """A tracked buffer is done when sender and receiver have let go of it."""
    a, b = pair
    a.copy_threshold = 0
    tracker = a.send(b"data", copy=False, track=True)
    assert not tracker.done
    with pytest.raises(zmq.NotDone):
        tracker.wait(0.01)
    received = b.recv(copy=False)
    assert not tracker.done
    del received
    gc.collect()
    tracker.wait(10)
    assert tracker.done


def test_small_messages_are_done_at_once(pair):
    """Below copy_threshold data is copied, and the tracker says so."""
    a, _ = pair
    assert a.send(b"small", copy=False, track=True).done


def test_tracking_several():
    """A tracker of frames is done when all of them are."""
    frames = [zmq.Frame(b"x", track=True, copy=False) for _ in range(2)]
    tracker = zmq.MessageTracker(*frames)
    clone = copy.copy(frames[0])
    assert clone.tracker is frames[0].tracker
    del clone
    frames.pop()
    assert not tracker.done
    frames.pop()
    gc.collect()
    tracker.wait(10)
    with pytest.raises(ValueError, match="tracked"):
        zmq.MessageTracker(zmq.Frame(b"x"))
    with pytest.raises(TypeError):
        zmq.MessageTracker(5)


def test_recv_into(pair):
    """The part is written into the buffer, and its full size returned."""
    a, b = pair
    a.send_multipart([b"hello", b"world", b"rest"])
    words = array("Q", [0])
    assert b.recv_into(words) == 5
    assert words.tobytes()[:5] == b"hello"
    short = bytearray(3)
    assert b.recv_into(short, nbytes=2) == 5
    assert short == b"wo\0"
    assert b.recv_into(bytearray()) == 4
    for bad, error in ((b"readonly", BufferError), (5, TypeError)):
        with pytest.raises(error):
            b.recv_into(bad)
    with pytest.raises(ValueError, match="too big"):
        b.recv_into(short, nbytes=4)
    with pytest.raises(ValueError, match="negative"):
        b.recv_into(short, nbytes=-1)


def test_conversions(pair):
    """Strings, objects, JSON and own serializers go both ways."""
    a, b = pair
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
