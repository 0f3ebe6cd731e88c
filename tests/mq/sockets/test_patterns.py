"""What each kind of socket shall do, as the protocol's documents have it."""

import pytest

import mq
from tests.mq.util import drain, fill


def send_to(router, peer, *parts):
    """Address a message through a ROUTER."""
    router.send_multipart([peer, *parts])


@pytest.mark.parametrize("kind", [mq.PUSH, mq.DEALER])
def test_sends_in_turn(pair, socket, kind):
    """SHALL route outgoing messages to available peers using a round-robin strategy."""
    sender = socket(kind)
    sender.bind("inproc://a")
    receivers = [socket(mq.PULL if kind == mq.PUSH else mq.DEALER) for _ in range(5)]
    for receiver in receivers:
        receiver.connect("inproc://a")
    for number in range(10):
        sender.send(b"%d" % number)
    received = [[m for [m] in drain(receiver)] for receiver in receivers]
    assert sorted(received) == [[b"%d" % n, b"%d" % (n + 5)] for n in range(5)]


@pytest.mark.parametrize("kind", [mq.PULL, mq.DEALER])
def test_receives_in_turn(socket, kind):
    """SHALL receive incoming messages from its peers using a fair-queuing strategy."""
    receiver = socket(kind)
    receiver.bind("inproc://a")
    for name in (b"a", b"b", b"c"):
        sender = socket(mq.PUSH if kind == mq.PULL else mq.DEALER)
        sender.connect("inproc://a")
        for number in (b"1", b"2"):
            sender.send(name + number)
    names = [message[:1] for [message] in drain(receiver)]
    assert sorted(names[:3]) == sorted(names[3:]) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("kind", [mq.PUSH, mq.DEALER, mq.REQ, mq.PAIR])
def test_no_peer_blocks(socket, kind):
    """SHALL block on sending when it has no available peers: EAGAIN after the timeout."""
    with pytest.raises(mq.Again):
        socket(kind, sndtimeo=20).send(b"x")


@pytest.mark.parametrize("kind", [mq.PUB, mq.XPUB])
def test_no_subscriber_drops(socket, kind):
    """SHALL drop messages that nobody wants."""
    socket(kind).send(b"x")


@pytest.mark.parametrize(
    ("kind", "method"), [(mq.PUSH, "recv"), (mq.PUB, "recv"), (mq.PULL, "send"), (mq.SUB, "send")]
)
def test_wrong_direction(socket, kind, method):
    """One-way sockets refuse the other way: ENOTSUP."""
    args = (b"x",) if method == "send" else ()
    with pytest.raises(mq.ZMQError) as raised:
        getattr(socket(kind), method)(*args)
    assert raised.value.errno == mq.ENOTSUP


def test_pair_has_one_peer(socket):
    """PAIR: a second connection is refused, the first goes on."""
    bound, first, second = socket(mq.PAIR), socket(mq.PAIR), socket(mq.PAIR)
    bound.bind("inproc://a")
    first.connect("inproc://a")
    first.send(b"first")
    second.connect("inproc://a")
    assert bound.recv() == b"first"
    bound.get(mq.EVENTS)
    with pytest.raises(mq.Again):
        second.send(b"x", mq.DONTWAIT)
    bound.send(b"back")
    assert first.recv() == b"back"


def test_more_flags(pair):
    """RCVMORE is 1, 1, 0 over a message of three parts."""
    router, dealer = pair(mq.ROUTER, mq.DEALER)
    dealer.send_multipart([b"A", b"B"])
    flags = []
    for _ in range(3):
        router.recv()
        flags.append(router.get(mq.RCVMORE))
    assert flags == [1, 1, 0]


# REQ and REP


def test_req_and_rep_take_turns(pair):
    """A second send, or a recv out of turn, is EFSM, and changes nothing."""
    rep, req = pair(mq.REP, mq.REQ)
    for call in (req.recv, lambda: rep.send(b"x")):
        with pytest.raises(mq.ZMQError) as raised:
            call()
        assert raised.value.errno == mq.EFSM
    req.send(b"question")
    with pytest.raises(mq.ZMQError):
        req.send(b"again")
    assert rep.recv() == b"question"
    rep.send_multipart([b"an", b"answer"])
    assert req.recv_multipart() == [b"an", b"answer"]


def test_rep_returns_the_envelope(pair):
    """REP SHALL return the frames up to and with the first empty one in front of its reply."""
    rep, dealer = pair(mq.REP, mq.DEALER)
    dealer.send_multipart([b"X", b"Y", b"", b"A"])
    assert rep.recv_multipart() == [b"A"]
    rep.send(b"B")
    assert dealer.recv_multipart() == [b"X", b"Y", b"", b"B"]


def test_rep_skips_what_is_no_request(pair):
    """A message without an empty frame is no request."""
    rep, dealer = pair(mq.REP, mq.DEALER)
    dealer.send_multipart([b"X", b"Y"])
    dealer.send_multipart([b"", b"A"])
    assert rep.recv_multipart() == [b"A"]


def test_req_ignores_replies_of_another_shape(pair):
    """REQ SHALL discard replies without an empty frame in front."""
    router, req = pair(mq.ROUTER, mq.REQ)
    req.send(b"question")
    peer, _, _ = router.recv_multipart()
    send_to(router, peer, b"bad")
    send_to(router, peer, b"bad", b"")
    send_to(router, peer, b"", b"good")
    assert req.recv() == b"good"


def test_req_relaxed_and_correlated(pair):
    """A new request replaces one unanswered; the late reply to the first is not taken for it."""
    router, req = pair(mq.ROUTER, mq.REQ, req_relaxed=1, req_correlate=1)
    req.send(b"first")
    peer, first_id, empty, body = router.recv_multipart()
    assert (len(first_id), empty, body) == (4, b"", b"first")
    send_to(router, peer, b"\0\0\0\0x", b"", b"wrong number")
    send_to(router, peer, first_id, b"", b"right")
    assert req.recv() == b"right"


def test_req_goes_on_when_its_peer_is_gone(socket):
    """The pipe of an unanswered request is gone: with REQ_RELAXED the next peer is asked."""
    req = socket(mq.REQ, req_relaxed=1)
    req.bind("inproc://a")
    first = socket(mq.REP)
    first.connect("inproc://a")
    req.send(b"1")
    assert first.recv() == b"1"
    second = socket(mq.REP)
    second.connect("inproc://a")
    req.send(b"2")
    assert second.recv() == b"2"
    second.send(b"answer")
    assert req.recv() == b"answer"


# ROUTER


def test_router_names_and_addresses(pair):
    """Names given by the peer are used, others are five bytes that begin with 0."""
    router, dealer = pair(mq.ROUTER, mq.DEALER, routing_id=b"named")
    other = dealer.context.socket(mq.DEALER)
    with other:
        other.connect("inproc://pair-0")
        dealer.send(b"hello")
        other.send(b"hello")
        names = [router.recv_multipart()[0] for _ in range(2)]
        assert b"named" in names
        [automatic] = set(names) - {b"named"}
        assert (len(automatic), automatic[0]) == (5, 0)
        send_to(router, automatic, b"you")
        assert other.recv() == b"you"


def test_router_drops_what_it_cannot_address(pair):
    """Unknown peers are dropped, with ROUTER_MANDATORY they are EHOSTUNREACH."""
    router, _ = pair(mq.ROUTER, mq.DEALER)
    send_to(router, b"unknown", b"x")
    router.router_mandatory = 1
    with pytest.raises(mq.ZMQError) as raised:
        send_to(router, b"unknown", b"x")
    assert raised.value.errno == mq.EHOSTUNREACH


def test_router_mandatory_waits_for_room(pair):
    """With ROUTER_MANDATORY a full peer is EAGAIN, without it the message is dropped."""
    router, dealer = pair(
        mq.ROUTER, mq.DEALER, {"sndhwm": 1, "router_mandatory": 1}, rcvhwm=1, routing_id=b"X"
    )
    router.get(mq.EVENTS)
    for _ in range(2):
        router.send_multipart([b"X", b"x"], mq.DONTWAIT)
    with pytest.raises(mq.Again):
        router.send_multipart([b"X", b"x"], mq.DONTWAIT)
    router.router_mandatory = 0
    router.send_multipart([b"X", b"x"], mq.DONTWAIT)
    assert len(drain(dealer)) == 2


@pytest.mark.parametrize("handover", [0, 1])
def test_router_and_a_name_used_twice(pair, socket, handover):
    """A name in use is refused to the second; with ROUTER_HANDOVER the second takes it over."""
    router, first = pair(mq.ROUTER, mq.DEALER, {"router_handover": handover}, routing_id=b"X")
    second = socket(mq.DEALER, routing_id=b"X")
    router.get(mq.EVENTS)
    second.connect("inproc://pair-0")
    router.get(mq.EVENTS)
    send_to(router, b"X", b"you")
    assert [drain(first), drain(second)] == ([[], [[b"you"]]] if handover else [[[b"you"]], []])


def test_probe_router(pair):
    """PROBE_ROUTER sends an empty message on connecting, by which the ROUTER knows its peer."""
    router, dealer = pair(mq.ROUTER, mq.DEALER, routing_id=b"X", probe_router=1)
    assert router.recv_multipart() == [b"X", b""]
    send_to(router, b"X", b"hello")
    assert dealer.recv() == b"hello"


# PUB and SUB


def test_topics(pair):
    """A message goes to those who subscribed to a prefix of it."""
    pub, sub = pair(mq.PUB, mq.SUB)
    sub.subscribe("a")
    sub.subscribe("b")
    sub.subscribe("b")
    sub.unsubscribe("b")
    for topic in (b"apple", b"banana", b"cherry"):
        pub.send(topic)
    assert drain(sub) == [[b"apple"], [b"banana"]]
    sub.unsubscribe("b")
    pub.send(b"banana")
    assert drain(sub) == []


def test_disconnected_subscriber(pair):
    """Three publications arrive, then the disconnect is seen as an unsubscription."""
    xpub, sub = pair(mq.XPUB, mq.SUB)
    sub.subscribe(b"foo")
    assert xpub.recv() == b"\1foo"
    for _ in range(3):
        xpub.send(b"foo")
    assert drain(sub) == [[b"foo"]] * 3
    sub.disconnect("inproc://pair-0")
    xpub.get(mq.EVENTS)  # hears of it, and acknowledges
    sub.get(mq.EVENTS)  # acknowledges too
    assert xpub.recv() == b"\0foo"
    xpub.send(b"foo")
    assert drain(sub) == []


def test_xpub_drops_for_those_who_are_full(pair):
    """XPUB drops what exceeds the marks; with XPUB_NODROP it is EAGAIN, and all arrives."""
    xpub, sub = pair(mq.XPUB, mq.SUB, {"sndhwm": 50}, rcvhwm=50)
    sub.subscribe(b"")
    xpub.recv()
    assert fill(xpub, limit=300) == 300
    assert len(drain(sub)) == 100
    xpub.xpub_nodrop = 1
    arrived = sent = 0
    while sent < 600:
        sent += fill(xpub, limit=600 - sent)
        arrived += len(drain(sub))
    assert arrived == 600


def test_xpub_verbose(pair, socket):
    """A subscription known already is passed on only with XPUB_VERBOSE."""
    xpub, one = pair(mq.XPUB, mq.SUB)
    two = socket(mq.SUB)
    two.connect("inproc://pair-0")
    one.subscribe(b"A")
    two.subscribe(b"A")
    assert drain(xpub) == [[b"\1A"]]
    xpub.xpub_verbose = 1
    two.subscribe(b"A")
    assert drain(xpub) == [[b"\1A"]]


def test_xpub_manual(pair):
    """With XPUB_MANUAL the publisher decides what a subscriber is subscribed to."""
    xpub, sub = pair(mq.XPUB, mq.SUB, {"xpub_manual": 1})
    sub.subscribe(b"")
    assert xpub.recv() == b"\1"
    xpub.setsockopt(mq.SUBSCRIBE, b"B")
    for topic in (b"A", b"B"):
        xpub.send(topic)
    assert drain(sub) == [[b"B"]]


def test_welcome_message(pair):
    """A new subscriber is sent the welcome message if it subscribed to it."""
    xpub, sub = pair(mq.XPUB, mq.SUB, {"xpub_welcome_msg": b"W"})
    sub.subscribe(b"W")
    assert xpub.recv() == b"\1W"
    assert sub.recv() == b"W"


def test_xsub_subscribes_by_message(pair):
    """XSUB sends the byte 1 and the topic, and what it says else reaches the XPUB."""
    xpub, xsub = pair(mq.XPUB, mq.XSUB)
    xsub.send(b"\1A")
    xsub.send(b"hello")
    assert drain(xpub) == [[b"\1A"], [b"hello"]]
    xpub.send(b"A1")
    xpub.send(b"B1")
    assert drain(xsub) == [[b"A1"]]


def test_invert_matching(pair):
    """INVERT_MATCHING delivers what was not subscribed to."""
    pub, sub = pair(mq.PUB, mq.SUB, {"invert_matching": 1}, invert_matching=1)
    sub.subscribe(b"A")
    pub.send(b"A1")
    pub.send(b"B1")
    assert drain(sub) == [[b"B1"]]
