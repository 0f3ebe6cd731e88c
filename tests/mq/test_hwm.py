"""High-water marks: what may be under way, and how credit returns."""

import threading

import pytest

import mq
from tests.mq.util import drain, fill


@pytest.mark.parametrize("bind_first", [True, False])
@pytest.mark.parametrize(
    ("send_hwm", "receive_hwm", "room"),
    [(1000, 1000, 2000), (1, 0, 10_000), (0, 1, 10_000), (0, 0, 10_000), (1, 1, 2), (2, 3, 5)],
)
def test_room(socket, send_hwm, receive_hwm, room, bind_first):
    """The marks of both ends add up; 0 at either end is no limit."""
    pull, push = socket(mq.PULL, rcvhwm=receive_hwm), socket(mq.PUSH, sndhwm=send_hwm)
    if bind_first:
        pull.bind("inproc://a")
    push.connect("inproc://a")
    if not bind_first:
        pull.bind("inproc://a")
    assert fill(push) == room
    assert len(drain(pull)) == room
    push.send(b"one more", mq.DONTWAIT)
    assert pull.recv() == b"one more"


def test_before_the_bind_the_own_mark_counts_alone(socket):
    """2 go out before the bind; the peer's 3 are added after it."""
    push, pull = socket(mq.PUSH, sndhwm=2), socket(mq.PULL, rcvhwm=3)
    push.connect("inproc://a")
    assert fill(push) == 2
    pull.bind("inproc://a")
    assert fill(push) == 3


def test_credit_returns_at_the_low_water_mark_only(pair):
    """Blocked at 2000, the writer is let go after 1000 reads and not before."""
    pull, push = pair(mq.PULL, mq.PUSH)
    assert fill(push) == 2000
    for _ in range(999):
        pull.recv()
    assert fill(push) == 0
    pull.recv()
    assert fill(push) == 1000


def test_no_spurious_again(pair):
    """Once credit was given, the very next send takes it."""
    pull, push = pair(mq.PULL, mq.PUSH, {"rcvhwm": 1}, sndhwm=1)
    for _ in range(1000):
        assert fill(push) == 2
        assert len(drain(pull)) == 2


def test_multipart_messages_count_once(pair):
    """Marks count messages, not parts, and a message begun can be completed."""
    pull, push = pair(mq.PULL, mq.PUSH, {"rcvhwm": 1}, sndhwm=1)
    for _ in range(2):
        push.send_multipart([b"x"] * 10, mq.DONTWAIT)
    with pytest.raises(mq.Again):
        push.send_multipart([b"x"] * 10, mq.DONTWAIT)
    assert drain(pull) == [[b"x"] * 10] * 2


def test_marks_raised_while_connected(pair):
    """2 + 2 make 4; raised to 5 + 1, 6 fit."""
    pull, push = pair(mq.PULL, mq.PUSH, {"rcvhwm": 2}, sndhwm=2)
    assert fill(push) == 4
    assert len(drain(pull)) == 4
    push.sndhwm = 5
    pull.rcvhwm = 1
    assert pull.getsockopt(mq.EVENTS) == 0
    assert fill(push) == 6


@pytest.mark.parametrize(("old", "new"), [(100, 2), (100, 1), (0, 3)])
def test_marks_lowered_while_full(pair, old, new):
    """Lowering a mark loses nothing, and the pipe can be filled and drained again and again."""
    pull, push = pair(mq.PULL, mq.PUSH, {"rcvhwm": 1}, sndhwm=old)
    sent = fill(push, limit=150)
    push.sndhwm = new
    assert fill(push) == 0 or not old
    assert len(drain(pull)) == sent
    for _ in range(20):
        sent = fill(push)  # what was read since the last low-water mark is not credited yet
        assert 1 <= sent <= new + 1
        assert len(drain(pull)) == sent


def test_a_blocked_writer_is_woken(pair):
    """A writer blocked on a full pipe goes on as it is drained; everything arrives in order."""
    pull, push = pair(mq.PULL, mq.PUSH, {"rcvhwm": 3}, sndhwm=2)

    def run():
        for number in range(5000):
            push.send(b"%d" % number)

    thread = threading.Thread(target=run)
    thread.start()
    assert [int(pull.recv()) for _ in range(5000)] == list(range(5000))
    thread.join()


def test_conflate_keeps_the_last(socket):
    """Of 20 messages the last one is read, then nothing."""
    pull, push = socket(mq.PULL), socket(mq.PUSH, conflate=1)
    pull.bind("inproc://a")
    push.connect("inproc://a")
    for number in range(20):
        push.send(b"%d" % number)
    assert pull.recv() == b"19"
    with pytest.raises(mq.Again):
        pull.recv(mq.DONTWAIT)


def test_conflate_counts_at_the_connecting_socket_only(socket):
    """Conflate set on the bound side changes nothing."""
    pull, push = socket(mq.PULL, conflate=1), socket(mq.PUSH)
    pull.bind("inproc://a")
    push.connect("inproc://a")
    assert fill(push, limit=20) == 20
    assert len(drain(pull)) == 20
