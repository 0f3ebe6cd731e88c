"""The distributor: each part to many pipes, and whole messages only."""

import pytest

import mq as zmq
from _purgatory_cpython.atomicity import COMPILED
from mq.pipes.distributor import Distributor
from mq.pipes.message import MessagePart

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


class StubPipe:
    """A pipe that raises `error` when it is written to."""

    def __init__(self, error=None):
        self.error, self.parts = error, []

    def write(self, part):
        if self.error is not None:
            raise self.error
        self.parts.append(part)
        return True

    def flush(self):
        """Wake nobody."""

    def rollback(self):
        """Take back what was written."""
        self.parts.clear()


@pytest.mark.skipif(COMPILED, reason="a compiled distributor wants pipes")
def test_an_interrupt_between_two_pipes():
    """It comes out, and no pipe has a part of the message; the next part begins another one."""
    distributor, pipes = Distributor(), [StubPipe(), StubPipe(KeyboardInterrupt())]
    for pipe in pipes:
        distributor.attach(pipe)
    with pytest.raises(KeyboardInterrupt):
        distributor.send(MessagePart(b"a", more=True), pipes)
    assert not distributor.mid_message
    pipes[1].error = None
    distributor.send(b"b", pipes)
    assert [pipe.parts for pipe in pipes] == [[b"b"], [b"b"]]
