"""High-water marks: their sum, their hysteresis, and their change while connected."""

import select

import pytest

import mq as zmq
from mq.pipes.flow_control import HighWaterMarks, effective_hwms

URL = "inproc://hwm"


def fill(push, limit=20_000):
    """How many messages fit until there is no more room."""
    for n in range(limit):
        try:
            push.send(b"x", zmq.DONTWAIT)
        except zmq.Again:
            return n
    return limit


def drain(pull):
    """How many messages there are."""
    n = 0
    while True:
        try:
            pull.recv(zmq.DONTWAIT)
        except zmq.Again:
            return n
        n += 1


@pytest.fixture
def pair(socket):
    """A connected PUSH and PULL with the marks given."""

    def make(sndhwm=1000, rcvhwm=1000, bind_first=True):
        push, pull = socket(zmq.PUSH, sndhwm=sndhwm), socket(zmq.PULL, rcvhwm=rcvhwm)
        if bind_first:
            pull.bind(URL)
        push.connect(URL)
        if not bind_first:
            pull.bind(URL)
        return push, pull

    return make


@pytest.mark.parametrize("bind_first", [True, False])
def test_default_is_two_thousand(pair, bind_first):
    """SNDHWM and the peer's RCVHWM, 1000 each, add up."""
    push, pull = pair(bind_first=bind_first)
    assert fill(push) == 2000
    assert drain(pull) == 2000


@pytest.mark.parametrize(
    ("sndhwm", "rcvhwm", "expected"), [(1, 0, 10_000), (0, 1, 10_000), (0, 0, 10_000), (1, 1, 2)]
)
def test_zero_is_no_limit(pair, sndhwm, rcvhwm, expected):
    """(1,0), (0,1) and (0,0) take all 10,000 messages, (1,1) takes 2."""
    push, pull = pair(sndhwm, rcvhwm)
    assert fill(push, 10_000) == expected
    assert drain(pull) == expected


def test_before_bind_only_our_own_counts(socket):
    """With SNDHWM 2, 2 fit before there is a peer, and 3 more when it has bound with RCVHWM 3."""
    push, pull = socket(zmq.PUSH, sndhwm=2), socket(zmq.PULL, rcvhwm=3)
    push.connect(URL)
    assert fill(push) == 2
    pull.bind(URL)
    assert fill(push) == 3
    assert drain(pull) == 5


def test_connect_send_close_bind(socket):
    """What fitted before the close arrives after the bind: with SNDHWM 1, one message."""
    push, pull = socket(zmq.PUSH, sndhwm=1), socket(zmq.PULL, rcvhwm=1)
    push.connect(URL)
    assert fill(push) == 1
    push.close()
    pull.bind(URL)
    assert drain(pull) == 1


def test_after_draining_there_is_room_again(pair):
    """(1,1): full at 2; after one was read, one more fits."""
    push, pull = pair(1, 1)
    assert fill(push) == 2
    pull.recv()
    assert fill(push) == 1


def test_credit_comes_at_the_low_water_mark_only(pair):
    """Full at 2000, no room after 999 reads, room for 1000 after the 1000th."""
    push, pull = pair()
    fill(push)
    for _ in range(999):
        pull.recv()
    assert fill(push) == 0
    pull.recv()
    assert fill(push) == 1000


def test_parts_do_not_count(pair):
    """A message of many parts counts once."""
    push, pull = pair(2, 2)
    for _ in range(4):
        push.send_multipart([b"x"] * 50, zmq.DONTWAIT)
    with pytest.raises(zmq.Again):
        push.send_multipart([b"x"], zmq.DONTWAIT)
    assert drain(pull) == 200


def test_a_change_counts_while_connected(pair):
    """2+2 takes 4; SNDHWM 5 and RCVHWM 1 set afterwards take 6."""
    push, pull = pair(2, 2)
    assert fill(push) == 4
    assert drain(pull) == 4
    push.sndhwm, pull.rcvhwm = 5, 1
    assert fill(push) == 6
    assert drain(pull) == 6
    assert 4 <= fill(push) <= 6  # up to lwm - 1 = 2 reads are not reported yet


def test_raising_gives_room_at_once(pair):
    """A full pipe has room as soon as either side raises its mark."""
    push, pull = pair(2, 2)
    fill(push)
    push.sndhwm = 4
    assert fill(push) == 2
    pull.rcvhwm = 5
    assert fill(push) == 3


def test_a_change_before_the_connection_was_noticed(pair):
    """A mark set by the bound side counts although the connection, made by the other with the old
    mark, has not been noticed yet; and the descriptor still tells of it.
    """
    push, pull = pair(2, 2)
    pull.rcvhwm = 5
    assert select.select([pull.fd], [], [], 0)[0] == [pull.fd]
    assert fill(push) == 7
    assert pull.events == zmq.POLLIN


def test_a_change_to_no_limit_and_back(pair):
    """0 set while connected is no limit, not a summand; a limit set again holds again."""
    push, pull = pair(2, 2)
    fill(push)
    pull.rcvhwm = 0
    assert fill(push, 500) == 500
    pull.rcvhwm = 3
    assert fill(push) == 0
    assert drain(pull) == 504
    assert fill(push) == 5


@pytest.mark.parametrize("changed", ["sndhwm", "rcvhwm"])
def test_shrinking_while_full_loses_nothing_and_never_blocks(pair, changed):
    """Lowering a mark under what is in the pipe loses nothing, and afterwards the pipe can be
    filled and drained again and again: the reader's low-water mark follows the writer's limit.
    """
    push, pull = pair(100, 100)
    assert fill(push) == 200
    setattr(push if changed == "sndhwm" else pull, changed, 1)
    assert fill(push) == 0
    assert drain(pull) == 200
    for _ in range(10):
        assert 51 <= fill(push) <= 101
        drain(pull)


def test_shrinking_to_the_least_and_refilling(pair):
    """Both marks lowered to 1, in the middle of a half-read pipe: room for 2, repeatedly."""
    push, pull = pair(100, 100)
    fill(push)
    for _ in range(73):
        pull.recv()
    push.sndhwm = 1
    pull.rcvhwm = 1
    assert drain(pull) == 127
    for _ in range(5):
        assert fill(push) == 2
        assert drain(pull) == 2


def test_no_change_is_sent_to_a_peer_that_is_ending(pair):
    """Setting a mark while the peer closes disturbs nothing."""
    push, pull = pair()
    push.send(b"x")
    push.close()
    pull.rcvhwm = 7
    assert pull.recv() == b"x"


def test_a_publisher_drops_at_the_mark(socket):
    """Of a PUB's messages to a subscriber that does not receive, HWM are kept."""
    pub, sub = socket(zmq.PUB, sndhwm=60), socket(zmq.SUB, rcvhwm=40)
    sub.subscribe(b"")
    pub.bind(URL)
    sub.connect(URL)
    for _ in range(500):
        pub.send(b"x")
    assert drain(sub) == 100


def test_nodrop_publishers_say_again(socket):
    """With XPUB_NODROP and SNDHWM 2000, 6000 messages arrive, and Again was seen."""
    pub, sub = socket(zmq.XPUB, sndhwm=1000, xpub_nodrop=1), socket(zmq.SUB, rcvhwm=1000)
    sub.subscribe(b"")
    pub.bind(URL)
    sub.connect(URL)
    sent = received = again = 0
    while sent < 6000:
        try:
            pub.send(b"x", zmq.DONTWAIT)
            sent += 1
        except zmq.Again:
            again += 1
            received += drain(sub)
    assert again
    assert received + drain(sub) == 6000


def test_subscriptions_are_never_dropped(socket):
    """More subscriptions than the mark allows messages all reach the publisher."""
    pub, sub = socket(zmq.PUB, rcvhwm=10), socket(zmq.SUB, sndhwm=10)
    pub.bind(URL)
    sub.connect(URL)
    for n in range(100):
        sub.subscribe(b"%03d" % n)
    for n in range(100):
        pub.send(b"%03d" % n)
        assert sub.recv() == b"%03d" % n


@pytest.mark.parametrize(
    ("own", "peer", "found"),
    [
        ((3, 8), None, (3, 4)),
        ((3, 7), None, (3, 4)),
        ((0, 0), None, (0, 0)),
        ((3, 8), (2, 4), (7, 5)),
        ((3, 8), (0, 4), (7, 0)),
        ((3, 8), (2, 0), (0, 5)),
        ((0, 8), (1, 4), (0, 5)),
    ],
)
def test_the_marks_of_a_connection(own, peer, found):
    """The sum of both sides for what is written, half of it for reports; 0 is no limit."""
    marks = None if peer is None else HighWaterMarks(*peer)
    assert effective_hwms(HighWaterMarks(*own), marks) == found
