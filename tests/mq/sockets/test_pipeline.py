"""PUSH, PULL and PAIR: turns, atomic messages, disconnects in the middle, conflation."""

import mq as zmq

URL = "inproc://pipeline"


def test_conflate_keeps_the_last(socket):
    """CONFLATE on the connecting side: of 20 messages sent, the last is read."""
    pull, push = socket(zmq.PULL), socket(zmq.PUSH, conflate=1)
    pull.bind(URL)
    push.connect(URL)
    for n in range(20):
        push.send(b"%d" % n)
    assert pull.recv() == b"19"
    assert pull.poll(0) == 0


def test_conflate_on_the_binding_side_counts_for_nothing(socket):
    """In-process only the connecting socket's CONFLATE counts: all 20 arrive."""
    pull, push = socket(zmq.PULL, conflate=1), socket(zmq.PUSH)
    pull.bind(URL)
    push.connect(URL)
    for n in range(20):
        push.send(b"%d" % n)
    assert [pull.recv() for _ in range(20)] == [b"%d" % n for n in range(20)]


def test_conflate_on_a_publisher(socket):
    """A PUB or SUB that conflates keeps the last message, and nothing breaks."""
    pub, sub = socket(zmq.PUB), socket(zmq.SUB, conflate=1)
    pub.bind(URL)
    sub.subscribe(b"")
    sub.connect(URL)
    for n in range(5):
        pub.send(b"%d" % n)
    assert sub.recv() == b"4"


def test_the_last_conflated_message_survives_its_senders_close(socket):
    """The end of the connection does not replace the message in the slot."""
    pull, push = socket(zmq.PULL), socket(zmq.PUSH, conflate=1)
    pull.bind(URL)
    push.connect(URL)
    push.send(b"last words")
    push.close()
    assert pull.recv() == b"last words"


def test_all_of_a_closed_sockets_messages_arrive_whatever_its_linger(socket):
    """LINGER has no effect in-process: with linger 0 all ten unread messages still arrive."""
    pull, push = socket(zmq.PULL), socket(zmq.PUSH)
    pull.bind(URL)
    push.connect(URL)
    for n in range(10):
        push.send(b"%d" % n)
    push.close(linger=0)
    assert [pull.recv() for _ in range(10)] == [b"%d" % n for n in range(10)]
