"""Message parts and their trackers."""

import copy
import gc
import threading

import pytest

import mq as zmq
from mq.pipes.message import DELIMITER, ENVELOPE_END, MessagePart, more_of
from tests.testing.forked_child import run_in_child


@pytest.mark.parametrize(
    ("part", "more"),
    [(b"last", False), (MessagePart(b"last", False), False), (MessagePart(b"", True), True)],
)
def test_whether_another_part_follows(part, more):
    """Bytes are a last part; others say so themselves."""
    assert more_of(part) is more
    assert (more_of(ENVELOPE_END), more_of(DELIMITER)) == (True, False)


def test_tracker(pair):
    """A tracked buffer is done when sender and receiver have let go of it."""
    a, b = pair(zmq.PAIR, zmq.PAIR)
    a.copy_threshold = 0
    tracker = a.send(b"data", copy=False, track=True)
    assert not tracker.done
    for timeout in (0, 0.01):
        with pytest.raises(zmq.NotDone):
            tracker.wait(timeout)
    received = b.recv(copy=False)
    assert not tracker.done
    del received
    gc.collect()
    tracker.wait(10)
    assert tracker.done


@pytest.mark.parametrize("is_done", [True, False])
def test_a_wait_that_is_no_time(is_done):
    """Is refused, whether there is something to wait for or not."""
    frames = [] if is_done else [zmq.Frame(b"x", track=True, copy=False)]
    with pytest.raises(ValueError, match="timeout is nan"):
        zmq.MessageTracker(*frames).wait(float("nan"))


def test_small_messages_are_done_at_once(pair):
    """Below copy_threshold data is copied, and the tracker says so."""
    a, _ = pair(zmq.PAIR, zmq.PAIR)
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


def test_the_seconds_of_a_wait():
    """Those left, for buffers and for other trackers; a negative timeout is no limit."""
    asked = []

    class Asked(threading.Event):
        def wait(self, timeout=None):
            asked.append(timeout)
            return super().wait(0)

    event = Asked()
    event.set()
    tracker = zmq.MessageTracker(event, zmq.MessageTracker(event))
    tracker.wait(100)
    tracker.wait()
    assert asked[2:] == [None, None]
    assert all(0 < seconds <= 100 for seconds in asked[:2])


def test_a_tracker_in_a_forked_child_is_done(pair):
    """No socket uses the child's copy of the buffer, and no thread would end a wait."""
    a, b = pair(zmq.PAIR, zmq.PAIR)
    a.copy_threshold = 0
    tracker = a.send(b"data", copy=False, track=True)
    around = zmq.MessageTracker(tracker)

    def work():
        for each in (tracker, around):
            assert each.done
            each.wait()

    assert run_in_child(work) == 0
    assert not around.done
    assert b.recv() == b"data"
