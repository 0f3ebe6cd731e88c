"""Turns: of peers that are sent to, and of peers that are received from."""

import pytest

import mq as zmq
from mq.pipes.flow_control import HighWaterMarks
from mq.pipes.message import MessagePart, data_of
from mq.pipes.pipe import pipepair
from mq.pipes.round_robin import FairQueue, LoadBalancer, Sent
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


def test_the_queue_knows_whose_message_it_was(socket):
    """The last pipe is that of the message taken last: a reply goes there."""
    pull = socket(zmq.PULL)
    pull.bind(URL)
    pipes = []
    for _ in range(2):
        push = socket(zmq.PUSH)
        push.connect(URL)
        push.send(b"x")
        pull.recv()
        pipes.append(pull._core._fair_queue.last_pipe)
    assert pipes[0] is not pipes[1]


def test_push_without_peers_blocks(socket):
    """A PUSH SHALL block when it has no peers: Again when SNDTIMEO, 250 ms, has passed."""
    push = socket(zmq.PUSH, sndtimeo=250)
    with pytest.raises(zmq.Again):
        push.send(b"x")
    assert push.poll(0, zmq.POLLOUT) == 0


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


def pipe_ends():
    """Return the two ends of a pipe."""
    marks = HighWaterMarks(0, 0)
    ends = pipepair(marks, marks, conflate=False)
    for end in ends:
        end.mailbox = Mailbox()
    return ends


def receiving_pipe(*parts):
    """Return the reading end of a pipe with parts in it."""
    reader, writer = pipe_ends()
    for part in parts:
        assert writer.write(part)
    writer.flush()
    return reader


def test_a_pipe_that_ends_inside_a_message():
    """The rest of its message is dropped; the next part begins another pipe's message."""
    queue = FairQueue()
    ends, stays = receiving_pipe(MessagePart(b"a", True), b"b"), receiving_pipe(b"c")
    for pipe in (ends, stays):
        queue.attach(pipe)
    assert (data_of(queue.recv()), queue.mid_message) == (b"a", True)
    ends.terminate(False)
    assert (queue.recv(), queue.mid_message, queue.at_message_start) == (b"c", False, True)
    assert (queue.recv(), queue.last_pipe) == (None, stays)


def test_a_message_that_is_taken_back():
    """Its parts go to no peer, and the next message begins anew."""
    balancer, (writer, reader) = LoadBalancer(), pipe_ends()
    balancer.attach(writer)
    for more in (True, True):
        assert balancer.send(MessagePart(b"a", more)) is Sent.OK
    assert balancer.mid_message
    balancer.rollback()
    assert not balancer.mid_message
    assert balancer.send(b"b") is Sent.OK
    assert (reader.read(), reader.read()) == (b"b", None)


def test_whether_there_is_a_part_and_of_whom():
    """Asking takes nothing; a pipe that has become empty is passed over."""
    queue, one, two = FairQueue(), receiving_pipe(b"1"), receiving_pipe(b"2", b"3")
    assert not queue.has_in()
    queue.attach(one)
    queue.attach(two)
    for pipe, part in ((one, b"1"), (two, b"2"), (two, b"3")):
        assert queue.has_in()
        assert [queue.is_next(each) for each in (one, two)] == [pipe is one, pipe is two]
        assert queue.recv() == part
    assert not (queue.has_in())
    assert not (queue.is_next(one))
    assert not (queue.is_next(two))


@pytest.mark.parametrize("more", [True, False])
def test_a_receiver_that_ends_inside_a_message(more):
    """The part after is refused; the message is dropped to its end, and another can begin."""
    balancer, (pipe, _) = LoadBalancer(), pipe_ends()
    balancer.attach(pipe)
    assert balancer.send(MessagePart(b"a", True)) is Sent.OK
    pipe.terminate(False)
    assert balancer.send(MessagePart(b"b", more)) is Sent.BROKEN
    assert balancer.mid_message is more
    if more:
        assert balancer.send(b"c") is Sent.OK  # dropped
    assert not balancer.mid_message
    assert balancer.send(b"d") is Sent.AGAIN
    other, theirs = pipe_ends()
    balancer.attach(other)
    balancer.rollback()
    assert balancer.send(b"e") is Sent.OK
    assert (theirs.read(), balancer.last_pipe) == (b"e", other)


def test_a_peer_that_has_gone_inside_a_message():
    """A receiver's message is dropped to its end; the rest of a sender's does not come."""
    balancer, (pipe, _) = LoadBalancer(), pipe_ends()
    balancer.attach(pipe)
    assert balancer.send(MessagePart(b"a", True)) is Sent.OK
    balancer.terminated(pipe)
    assert balancer.mid_message
    assert balancer.has_out()
    assert balancer.send(b"b") is Sent.OK
    assert not balancer.mid_message
    assert not balancer.has_out()
    assert balancer.send(b"c") is Sent.AGAIN
    queue, reader = FairQueue(), receiving_pipe(MessagePart(b"a", True), b"b")
    queue.attach(reader)
    assert queue.recv() is not None
    queue.terminated(reader)
    assert (queue.mid_message, queue.last_pipe, queue.recv()) == (False, None, None)


@pytest.mark.parametrize("gone", [0, 1, 2])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_turns_go_on_when_a_peer_goes(gone, before):
    """Whoever goes, and whoever is next, the others get their turns."""
    balancer, pipes = LoadBalancer(), [pipe_ends() for _ in range(3)]
    for pipe, _ in pipes:
        balancer.attach(pipe)
    for _ in range(before):
        assert balancer.send(b"0") is Sent.OK
    balancer.terminated(pipes[gone][0])
    balancer.terminated(pipes[gone][0])
    del pipes[gone]
    for _ in range(4):
        assert balancer.send(b"1") is Sent.OK
    assert [list(iter(theirs.read, None))[-2:] for _, theirs in pipes] == [[b"1"] * 2] * 2
