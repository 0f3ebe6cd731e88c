"""The distributor: each part to many pipes, and whole messages only."""

import mq as zmq

URL = "inproc://pubsub"


def test_a_slow_subscriber_does_not_stop_the_others(socket):
    """A full subscriber misses whole messages until it has room; others get all."""
    pub = socket(zmq.PUB, sndhwm=5)
    pub.bind(URL)
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


def test_subscriber_leaving_inside_a_message(socket):
    """A subscriber that goes between two parts takes nothing with it."""
    pub, gone, stays = socket(zmq.PUB), socket(zmq.SUB), socket(zmq.SUB)
    pub.bind(URL)
    for sub in (gone, stays):
        sub.connect(URL)
        sub.subscribe(b"")
    pub.send(b"a", zmq.SNDMORE)
    gone.close()
    while not gone._core.destroyed:
        pub.get(zmq.EVENTS)
    pub.send(b"b")
    assert stays.recv_multipart() == [b"a", b"b"]
    assert len(pub._core._distributor.pipes) == 1
