"""PUSH, PULL and PAIR: turns, atomic messages, disconnects in the middle, conflation."""

import pytest

import mq as zmq
from mq.pipes.round_robin import Sent
from mq.queues.mailbox import Mailbox

URL = "inproc://pipeline"


def test_push_goes_round_robin(socket):
    """A PUSH SHALL give messages to its peers in turn."""
    push = socket(zmq.PUSH)
    push.bind(URL)
    pulls = [socket(zmq.PULL) for _ in range(5)]
    for pull in pulls:
        pull.connect(URL)
    for n in range(15):
        push.send(b"%d" % n)
    for n, pull in enumerate(pulls):
        assert [pull.recv() for _ in range(3)] == [b"%d" % (n + 5 * turn) for turn in range(3)]


def test_pull_queues_fairly(socket):
    """A PULL SHALL take messages from its peers in turn: a1 b1 c1 a2 ..."""
    pull = socket(zmq.PULL)
    pull.bind(URL)
    pushes = [socket(zmq.PUSH) for _ in range(3)]
    for push in pushes:
        push.connect(URL)
    for turn in (b"1", b"2", b"3"):
        for name, push in zip((b"a", b"b", b"c"), pushes, strict=True):
            push.send(name + turn)
    assert b" ".join(pull.recv() for _ in range(9)) == b"a1 b1 c1 a2 b2 c2 a3 b3 c3"


def test_push_without_peers_blocks(socket):
    """A PUSH SHALL block when it has no peers: Again when SNDTIMEO, 250 ms, has passed."""
    push = socket(zmq.PUSH, sndtimeo=250)
    with pytest.raises(zmq.Again):
        push.send(b"x")
    assert push.poll(0, zmq.POLLOUT) == 0


def test_wrong_directions(socket):
    """A PUSH cannot receive, a PULL cannot send."""
    for call in (socket(zmq.PUSH).recv, lambda: socket(zmq.PULL).send(b"x")):
        with pytest.raises(zmq.ZMQError) as caught:
            call()
        assert caught.value.errno == zmq.ENOTSUP


def test_more_flags(socket):
    """RCVMORE is 1, 1, 0 for the parts of a message of three."""
    push, pull = socket(zmq.PUSH), socket(zmq.PULL)
    pull.bind(URL)
    push.connect(URL)
    push.send_multipart([b"A", b"", b"B"])
    more = []
    for data in (b"A", b"", b"B"):
        assert pull.recv() == data
        more.append(pull.rcvmore)
    assert more == [1, 1, 0]


def test_unfinished_messages_are_invisible(socket):
    """Nothing of a message is received before its last part was sent."""
    push, pull = socket(zmq.PUSH), socket(zmq.PULL)
    pull.bind(URL)
    push.connect(URL)
    push.send(b"a", zmq.SNDMORE)
    assert pull.poll(0) == 0
    push.send(b"b")
    assert pull.recv_multipart() == [b"a", b"b"]


def test_closing_inside_a_message_takes_it_back(socket):
    """A message begun and not completed when its sender closes is never seen."""
    push, pull = socket(zmq.PUSH), socket(zmq.PULL)
    pull.bind(URL)
    push.connect(URL)
    push.send(b"whole")
    push.send(b"part", zmq.SNDMORE)
    push.close()
    assert pull.recv() == b"whole"
    assert pull.poll(10) == 0


def test_a_peer_that_goes_inside_a_message_gets_none_of_it(socket):
    """PUSH messages are atomic: when the peer given the first part goes, the rest is dropped and
    no other peer gets it; the next message goes to the next peer.
    """
    push, gone, stays = socket(zmq.PUSH), socket(zmq.PULL), socket(zmq.PULL)
    push.bind(URL)
    gone.connect(URL)
    push.send(b"a", zmq.SNDMORE)
    stays.connect(URL)
    gone.close()
    while not gone._core.destroyed:
        push.get(zmq.EVENTS)
    push.send(b"b", zmq.SNDMORE)
    push.send(b"c")
    push.send(b"next")
    assert stays.recv_multipart() == [b"next"]


def test_a_broken_message_is_again_for_who_does_not_wait(socket):
    """While the peer's connection ends, DONTWAIT raises Again and a waiting send drops."""
    for flags in (zmq.DONTWAIT, 0):
        push, pull = socket(zmq.PUSH), socket(zmq.PULL)
        push.bind(f"{URL}-{int(flags)}")
        pull.connect(f"{URL}-{int(flags)}")
        push.send(b"a", zmq.SNDMORE)
        pull.close()
        push._core.mailbox.recv(10).deliver()  # the pipe_term, and nothing after it yet
        theirs, push._core.mailbox = push._core.mailbox, Mailbox()
        if flags:
            with pytest.raises(zmq.Again):
                push.send(b"b", flags)
        else:
            push.send(b"b", flags)
        assert push._core.xsend(b"c") is Sent.AGAIN
        push._core.mailbox = theirs


def test_disconnect_inside_a_message_forgets_the_remainder(socket):
    """A PULL that disconnects after the first part of two gets no second part, and its next
    message is a whole one of another peer (libzmq aborts here).
    """
    pull = socket(zmq.PULL)
    pushes = [socket(zmq.PUSH), socket(zmq.PUSH)]
    for n, push in enumerate(pushes):
        push.bind(f"{URL}-{n}")
        pull.connect(f"{URL}-{n}")
    pushes[0].send_multipart([b"a1", b"a2"])
    assert pull.recv() == b"a1"
    assert pull.rcvmore
    pull.disconnect(f"{URL}-0")
    assert not pull.rcvmore
    pushes[1].send_multipart([b"b1", b"b2"])
    assert pull.recv_multipart() == [b"b1", b"b2"]
    with pytest.raises(zmq.Again):
        pull.recv(zmq.DONTWAIT)


@pytest.mark.parametrize("receiver", [zmq.DEALER, zmq.ROUTER, zmq.PAIR, zmq.SUB])
def test_disconnect_inside_a_message_for_other_types(socket, receiver):
    """The same for each type that receives in parts."""
    sender = {zmq.PAIR: zmq.PAIR, zmq.SUB: zmq.PUB}.get(receiver, zmq.DEALER)
    one, two, sink = socket(sender), socket(sender), socket(receiver)
    if receiver == zmq.SUB:
        sink.subscribe(b"")
    for n, source in enumerate((one, two)):
        source.bind(f"{URL}-{n}")
    sink.connect(f"{URL}-0")
    one.send_multipart([b"a1", b"a2", b"a3"])
    if receiver == zmq.ROUTER:
        sink.recv()
    assert sink.recv() == b"a1"
    sink.disconnect(f"{URL}-0")
    while sink._core._pipes:
        one.get(zmq.EVENTS)
        sink.get(zmq.EVENTS)
    sink.connect(f"{URL}-1")
    two.send_multipart([b"b1", b"b2"])
    got = sink.recv_multipart()
    assert got[-2:] == [b"b1", b"b2"]
    assert len(got) == (3 if receiver == zmq.ROUTER else 2)


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


def test_pair_is_exclusive(socket):
    """A PAIR keeps its first connection; others are ended, and do not disturb it."""
    bound, first, second = (socket(zmq.PAIR, sndtimeo=0) for _ in range(3))
    bound.bind(URL)
    first.connect(URL)
    bound.get(zmq.EVENTS)
    second.connect(URL)
    bound.get(zmq.EVENTS)
    while second._core._pipes:
        second.get(zmq.EVENTS)
        bound.get(zmq.EVENTS)
    with pytest.raises(zmq.Again):
        second.send(b"x")
    first.send(b"y")
    assert bound.recv() == b"y"
    bound.send(b"z")
    assert first.recv() == b"z"


def test_pair_takes_another_peer_after_the_first(socket):
    """When its peer has gone, a PAIR takes the next; without one it blocks."""
    bound, first = socket(zmq.PAIR, sndtimeo=0), socket(zmq.PAIR)
    bound.bind(URL)
    first.connect(URL)
    first.send(b"bye")
    first.close()
    assert bound.recv() == b"bye"
    while not first._core.destroyed:
        bound.get(zmq.EVENTS)
    with pytest.raises(zmq.Again):
        bound.send(b"x")
    second = socket(zmq.PAIR)
    second.connect(URL)
    bound.send(b"hello")
    assert second.recv() == b"hello"


def test_all_of_a_closed_sockets_messages_arrive_whatever_its_linger(socket):
    """LINGER has no effect in-process: with linger 0 all ten unread messages still arrive."""
    pull, push = socket(zmq.PULL), socket(zmq.PUSH)
    pull.bind(URL)
    push.connect(URL)
    for n in range(10):
        push.send(b"%d" % n)
    push.close(linger=0)
    assert [pull.recv() for _ in range(10)] == [b"%d" % n for n in range(10)]
