"""PUB, SUB, XPUB and XSUB: topics, subscriptions as messages, verbose, manual, welcome."""

import pytest

import mq as zmq
from tests.testing.sockets import drain, fill

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


@pytest.mark.parametrize(
    ("options", "applied", "count"),
    [
        ((), None, 1),
        (("xpub_verboser",), None, 2),
        (("xpub_manual",), None, 2),
        (("xpub_manual",), b"A", 2),
        (("xpub_manual",), b"B", 2),
    ],
)
def test_what_is_reported_when_subscribers_go(socket, options, applied, count):
    """What each asked for, once the last goes or, if all is reported, for each of them."""
    publisher = socket(zmq.XPUB, **dict.fromkeys(options, 1))
    publisher.bind("inproc://ends")
    subscribers = [socket(zmq.SUB) for _ in range(2)]
    for subscriber in subscribers:
        subscriber.connect("inproc://ends")
        subscriber.subscribe(b"A")
        if publisher.poll(0):
            assert publisher.recv() == b"\1A"
            if applied:
                publisher.subscribe(applied)
    for subscriber in subscribers:
        subscriber.close()
    assert [publisher.recv() for _ in range(count)] == [b"\0A"] * count
    with pytest.raises(zmq.Again):
        publisher.recv(zmq.NOBLOCK)


def topics_counts(publisher, subscriber):
    """How many topics each of two sockets says there are."""
    return publisher.get(zmq.TOPICS_COUNT), subscriber.get(zmq.TOPICS_COUNT)


@pytest.mark.parametrize("kind", [zmq.PUB, zmq.XPUB])
def test_how_many_topics(bound, socket, kind):
    """TOPICS_COUNT: those subscribed to, each once; of other types EINVAL."""
    publisher, subscriber, other = bound(kind), socket(zmq.SUB), socket(zmq.SUB)
    subscriber.connect(URL)
    other.connect(URL)
    assert topics_counts(publisher, subscriber) == (0, 0)
    for topic in (b"a", b"b", b"a", b""):
        subscriber.subscribe(topic)
        other.subscribe(topic)
    other.subscribe(b"c")
    assert topics_counts(publisher, subscriber) == (4, 3)
    subscriber.unsubscribe(b"a")
    assert topics_counts(publisher, subscriber) == (4, 3)
    subscriber.unsubscribe(b"a")
    assert topics_counts(publisher, subscriber) == (4, 2)
    other.close()
    while publisher.get(zmq.TOPICS_COUNT) != 2:
        pass  # until the reaper has told the publisher
    with pytest.raises(zmq.ZMQError, match="Invalid"):
        socket(zmq.PUSH).get(zmq.TOPICS_COUNT)


def last_values(bound, socket, kind):
    """An XPUB and two subscribers of which the second has subscribed last, and was served."""
    publisher = bound(zmq.XPUB, **{kind: 1})
    subscribers = [socket(zmq.SUB) for _ in range(2)]
    for subscriber in subscribers:
        subscriber.connect(URL)
        subscriber.subscribe(b"A")
        assert publisher.recv() == b"\1A"
        publisher.subscribe(b"A")
    return publisher, subscribers


def test_last_value(bound, socket):
    """XPUB_MANUAL_LAST_VALUE: a message after a subscription is for that subscriber alone."""
    publisher, subscribers = last_values(bound, socket, "xpub_manual_last_value")
    publisher.send_multipart([b"A", b"last value"])
    publisher.send(b"A new")
    assert drain(subscribers[0]) == [[b"A new"]]
    assert drain(subscribers[1]) == [[b"A", b"last value"], [b"A new"]]
    subscribers[0].subscribe(b"B")
    assert publisher.recv() == b"\1B"
    publisher.send(b"A again")
    assert drain(subscribers[0]) == [[b"A again"]]
    assert drain(subscribers[1]) == []


def test_last_value_of_a_subscriber_that_has_gone(bound, socket):
    """Its subscription is read when it is gone: it is not added, and all others get messages."""
    publisher, (first, second) = last_values(bound, socket, "xpub_manual_last_value")
    publisher.send(b"A for the second")
    second.subscribe(b"B")
    second.close()
    while publisher.get(zmq.TOPICS_COUNT) != 1 or len(publisher._core._pipes) != 1:
        publisher.get(zmq.EVENTS)  # until the reaper has told the publisher
    assert publisher.recv() == b"\1B"
    publisher.subscribe(b"B")
    assert publisher.get(zmq.TOPICS_COUNT) == 1
    publisher.send(b"A for all")
    assert drain(first) == [[b"A for all"]]


def test_manual_without_last_value(bound, socket):
    """XPUB_MANUAL alone sends to all."""
    publisher, subscribers = last_values(bound, socket, "xpub_manual")
    publisher.send(b"A")
    assert [drain(each) for each in subscribers] == [[[b"A"]], [[b"A"]]]


@pytest.mark.parametrize(
    ("options", "subscriptions", "ends"),
    [
        ([("xpub_verboser", 1), ("xpub_verbose", 1)], 2, 1),
        ([("xpub_verboser", 1), ("xpub_verbose", 0)], 1, 1),
        ([("xpub_verbose", 1), ("xpub_verboser", 0)], 1, 1),
        ([("xpub_verbose", 1), ("xpub_verboser", 1)], 2, 2),
    ],
)
def test_the_last_of_two_verbose_options_decides(bound, socket, options, subscriptions, ends):
    """As in libzmq: XPUB_VERBOSE ends the report of all ends, XPUB_VERBOSER sets both."""
    publisher = bound(zmq.XPUB)
    for name, value in options:
        setattr(publisher, name, value)
    subscribers = [socket(zmq.SUB) for _ in range(2)]
    for subscriber in subscribers:
        subscriber.connect(URL)
        subscriber.subscribe(b"A")
    assert drain(publisher) == [[b"\1A"]] * subscriptions
    for subscriber in subscribers:
        subscriber.unsubscribe(b"A")
    assert drain(publisher) == [[b"\0A"]] * ends


@pytest.mark.parametrize("only_first", [0, 1])
def test_subscriptions_in_a_message_of_several_parts(bound, socket, only_first):
    """Parts at its beginning subscribe; behind any other part all are data."""
    publisher = bound(zmq.XPUB, only_first_subscribe=only_first)
    subscriber = socket(zmq.XSUB, only_first_subscribe=only_first)
    subscriber.connect(URL)
    subscriber.send_multipart([b"\1A", b"\1B", b"data", b"\1C", b"\0A"])
    assert drain(publisher) == [[b"\1A"], [b"\1B"], [b"data", b"\1C", b"\0A"]]
    assert topics_counts(publisher, subscriber) == (2, 2)


def test_a_last_value_that_is_refused(bound, socket):
    """With XPUB_NODROP: sent again when there is room, it is still for that subscriber alone."""
    publisher, subscribers = last_values(bound, socket, "xpub_manual_last_value")
    publisher.send(b"A for the second")
    publisher.xpub_nodrop = 1
    publisher.sndhwm = subscribers[1].rcvhwm = 1
    fill(publisher, data=b"A")
    subscribers[1].subscribe(b"B")
    assert publisher.recv() == b"\1B"
    with pytest.raises(zmq.Again):
        publisher.send(b"A last value", zmq.NOBLOCK)
    for subscriber in subscribers:
        drain(subscriber)
    publisher.send(b"A last value")
    assert [drain(each) for each in subscribers] == [[], [[b"A last value"]]]
