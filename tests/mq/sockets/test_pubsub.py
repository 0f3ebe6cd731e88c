"""PUB, SUB, XPUB and XSUB: topics, subscriptions as messages, verbose, manual, welcome."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mq as zmq
from mq.pipes.subscriptions import Subscriptions

URL = "inproc://pubsub"


@pytest.fixture
def bound(socket):
    """A bound publisher of a type, with options."""

    def make(socket_type, **options):
        pub = socket(socket_type, **options)
        pub.bind(URL)
        return pub

    return make


@pytest.fixture
def subscriber(socket):
    """A connected subscriber of a type."""

    def make(socket_type=zmq.SUB, topic=None):
        sub = socket(socket_type)
        sub.connect(URL)
        if topic is not None:
            sub.subscribe(topic)
        return sub

    return make


def test_topics_are_prefixes(bound, subscriber):
    """A SUB receives what begins with one of its topics, each message once."""
    pub = bound(zmq.PUB)
    sub = subscriber(topic=b"a")
    sub.subscribe(b"ab")
    sub.subscribe("é")
    for data in (b"a", b"b", b"abc", "éclair".encode(), b""):
        pub.send(data)
    pub.send_multipart([b"ax", b"not a topic"])
    pub.send_multipart([b"b", b"a"])
    got = [sub.recv(), sub.recv(), sub.recv(), sub.recv_multipart()]
    assert got == [b"a", b"abc", "éclair".encode(), [b"ax", b"not a topic"]]
    assert sub.poll(0) == 0


def test_subscriptions_are_counted(bound, subscriber):
    """A topic subscribed to twice arrives until it was unsubscribed twice."""
    pub, sub = bound(zmq.PUB), subscriber(topic=b"a")
    sub.subscribe(b"a")
    sub.unsubscribe(b"a")
    pub.send(b"a1")
    assert sub.recv() == b"a1"
    sub.unsubscribe(b"a")
    sub.unsubscribe(b"a")
    pub.send(b"a2")
    assert sub.poll(0) == 0


def test_disconnect_ends_the_subscription(bound, subscriber):
    """Three publications arrive; after the disconnect the XPUB sees the unsubscription."""
    pub, sub = bound(zmq.XPUB), subscriber(topic=b"foo")
    assert pub.recv() == b"\1foo"
    for _ in range(3):
        pub.send_multipart([b"foo", b"this is foo"])
        assert sub.recv_multipart() == [b"foo", b"this is foo"]
    sub.disconnect(URL)
    while not pub.poll(1):
        sub.get(zmq.EVENTS)  # its part of the handshake
    assert pub.recv() == b"\0foo"
    pub.send(b"foo")
    assert sub.poll(0) == 0


def test_xpub_tells_news_only(bound, subscriber):
    """An XPUB receives the first subscription to a topic and the last unsubscription."""
    pub, one, two = bound(zmq.XPUB), subscriber(topic=b"A"), subscriber(topic=b"A")
    assert pub.recv() == b"\1A"
    assert pub.poll(0) == 0
    one.unsubscribe(b"A")
    assert pub.poll(0) == 0
    two.unsubscribe(b"A")
    assert pub.recv() == b"\0A"


def test_xpub_verbose(bound, subscriber):
    """XPUB_VERBOSE: every subscription is told; XPUB_VERBOSER: every unsubscription too."""
    pub, one = bound(zmq.XPUB, xpub_verbose=1), subscriber(topic=b"A")
    two = subscriber(topic=b"A")
    assert [pub.recv(), pub.recv()] == [b"\1A", b"\1A"]
    one.unsubscribe(b"A")
    assert pub.poll(0) == 0
    pub.xpub_verboser = 1
    one.subscribe(b"A")
    one.unsubscribe(b"A")
    two.unsubscribe(b"A")
    assert [pub.recv() for _ in range(3)] == [b"\1A", b"\0A", b"\0A"]


def test_xpub_manual(bound, subscriber):
    """XPUB_MANUAL: subscriptions are only reported; the program decides what each peer gets."""
    pub, sub = bound(zmq.XPUB, xpub_manual=1), subscriber(topic=b"A")
    assert pub.recv() == b"\1A"
    pub.set(zmq.SUBSCRIBE, b"XA")
    sub.subscribe(b"XA")
    assert pub.recv() == b"\1XA"
    pub.send(b"A")
    pub.send(b"XA")
    assert sub.recv() == b"XA"
    sub.unsubscribe(b"A")
    assert pub.recv() == b"\0A"
    pub.set(zmq.UNSUBSCRIBE, b"XA")
    pub.send(b"XA")
    assert sub.poll(0) == 0


def test_xpub_welcome_message(bound, subscriber):
    """XPUB_WELCOME_MSG goes to every new subscriber of its topic."""
    pub = bound(zmq.XPUB, xpub_welcome_msg=b"W")
    sub = subscriber(topic=b"W")
    assert pub.recv() == b"\1W"
    assert sub.recv() == b"W"


def test_xsub_speaks_in_messages(bound, subscriber):
    """An XSUB subscribes by sending a byte 1 and the topic; all else reaches the XPUB as it is."""
    pub, sub = bound(zmq.XPUB), subscriber(zmq.XSUB)
    sub.send(b"\1A")
    sub.send(b"a message of its own")
    sub.send_multipart([b"two", b"\1parts"])
    assert pub.recv() == b"\1A"
    assert pub.recv() == b"a message of its own"
    assert pub.recv_multipart() == [b"two", b"\1parts"]
    pub.send(b"Abc")
    pub.send(b"B")
    assert sub.recv() == b"Abc"
    sub.send(b"\0A")
    assert pub.recv() == b"\0A"


def test_a_later_publisher_is_told_all_subscriptions(socket):
    """Subscriptions made before the connection count for it."""
    sub, pub = socket(zmq.SUB), socket(zmq.PUB)
    sub.subscribe(b"a")
    pub.bind(URL)
    sub.connect(URL)
    pub.send(b"abc")
    assert sub.recv() == b"abc"


def test_a_slow_subscriber_does_not_stop_the_others(bound, socket):
    """A full subscriber misses whole messages until it has room; others get all."""
    pub = bound(zmq.PUB, sndhwm=5)
    slow, quick = socket(zmq.SUB, rcvhwm=5), socket(zmq.SUB, rcvhwm=5)
    for sub in (slow, quick):
        sub.subscribe(b"")
        sub.connect(URL)
    for n in range(100):
        pub.send_multipart([b"%d" % n, b"x"])
        assert quick.recv_multipart() == [b"%d" % n, b"x"]
    assert [slow.recv_multipart()[0] for _ in range(10)] == [b"%d" % n for n in range(10)]
    assert slow.poll(0) == 0
    pub.send(b"next")
    assert slow.recv() == b"next"


def test_subscriber_leaving_inside_a_message(bound, subscriber):
    """A subscriber that goes between two parts takes nothing with it."""
    pub, gone, stays = bound(zmq.PUB), subscriber(topic=b""), subscriber(topic=b"")
    pub.send(b"a", zmq.SNDMORE)
    gone.close()
    while not gone._core.destroyed:
        pub.get(zmq.EVENTS)
    pub.send(b"b")
    assert stays.recv_multipart() == [b"a", b"b"]


def test_invert_matching(bound, socket):
    """INVERT_MATCHING: what matches no subscription is sent."""
    pub, sub = bound(zmq.PUB, invert_matching=1), socket(zmq.SUB, invert_matching=1)
    sub.subscribe(b"no")
    sub.connect(URL)
    pub.send(b"nothing")
    pub.send(b"yes")
    assert sub.recv() == b"yes"


def test_directions(bound, subscriber):
    """A PUB cannot receive, a SUB cannot send, and nothing but a SUB can subscribe."""
    pub, sub = bound(zmq.PUB), subscriber()
    for call, number in (
        (pub.recv, zmq.ENOTSUP),
        (lambda: sub.send(b"x"), zmq.ENOTSUP),
        (lambda: pub.subscribe(b"x"), zmq.EINVAL),
    ):
        with pytest.raises(zmq.ZMQError) as caught:
            call()
        assert caught.value.errno == number


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=3), st.integers(0, 2))), st.binary())
def test_subscriptions_against_a_plain_list(changes, data):
    """Holders of prefixes, as a list of all subscriptions would have them."""
    table, model = Subscriptions(), []
    for add, topic, holder in changes:
        if add:
            assert table.add(topic, holder) == (topic not in [t for t, _ in model])
            model.append((topic, holder))
        elif (topic, holder) in model:
            model.remove((topic, holder))
            assert table.remove(topic, holder) == (topic not in [t for t, _ in model])
        else:
            assert not table.remove(topic, holder)
    expected = {holder for topic, holder in model if data.startswith(topic)}
    assert set(table.matching_subscribers(data)) == expected
    assert table.matches(data) == bool(expected)
    gone = [topic for topic in table.topics_of(0) if table.remove(topic, 0, completely=True)]
    assert set(gone) == {t for t, _ in model} - {t for t, h in model if h != 0}
