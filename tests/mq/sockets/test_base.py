"""What all socket types share: whole messages, and what ends inside one."""

import pytest

import mq as zmq

URL = "inproc://pipeline"


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


@pytest.mark.parametrize("kind", ["SUB", "REQ", "ROUTER", "PULL", "DEALER"])
def test_disconnecting_drops_what_a_poll_has_taken(socket, kind):
    """All parts: the next message is another peer's, and whole."""
    other_kind = {"SUB": "PUB", "REQ": "REP", "ROUTER": "DEALER", "PULL": "PUSH"}.get(kind, kind)
    receiver = socket(getattr(zmq, kind))
    if kind == "SUB":
        receiver.subscribe(b"")
    peers = {}
    for name in ("one", "two"):
        peers[name] = socket(getattr(zmq, other_kind))
        peers[name].bind(f"inproc://{name}")
    receiver.connect("inproc://one")
    if kind == "REQ":
        receiver.send(b"ask")
        peers["one"].recv()
    peers["one"].send_multipart([b"a1", b"a2"])
    assert receiver.poll(1000) == zmq.POLLIN
    receiver.disconnect("inproc://one")
    receiver.connect("inproc://two")
    if kind == "REQ":
        with pytest.raises(zmq.Again):
            receiver.recv_multipart(zmq.NOBLOCK)
        return
    peers["two"].send_multipart([b"b1", b"b2"])
    received = receiver.recv_multipart()
    assert received[-2:] == [b"b1", b"b2"]
    assert len(received) == (3 if kind == "ROUTER" else 2)


@pytest.mark.parametrize("method", ["bind", "connect"])
def test_an_address_that_cannot_be_encoded_has_no_effect(socket, method):
    """Tried again, it raises the same, and the name is free."""
    one = socket(zmq.DEALER)
    for _ in range(2):
        with pytest.raises(UnicodeEncodeError):
            getattr(one, method)("inproc://\udc80")
    with pytest.raises(zmq.Again):
        one.send(b"", zmq.NOBLOCK)
