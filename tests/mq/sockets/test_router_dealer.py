"""DEALER and ROUTER: fair queueing, load balancing, routing ids, mandatory, handover, probes."""

import pytest

import mq as zmq

URL = "inproc://router"


def test_dealer_sends_round_robin_and_receives_fairly(socket):
    """A DEALER SHALL give messages to its peers in turn, and take them from its peers in turn."""
    dealer = socket(zmq.DEALER)
    dealer.bind(URL)
    peers = [socket(zmq.DEALER) for _ in range(5)]
    for peer in peers:
        peer.connect(URL)
    for n in range(10):
        dealer.send(b"%d" % n)
    for n, peer in enumerate(peers):
        assert [peer.recv(), peer.recv()] == [b"%d" % n, b"%d" % (n + 5)]
    for n, peer in enumerate(peers):
        for turn in range(3):
            peer.send(b"%d %d" % (n, turn))
    got = [dealer.recv() for _ in range(15)]
    assert got == [b"%d %d" % (n, turn) for turn in range(3) for n in range(5)]


def test_dealer_without_peers_blocks(socket):
    """Again after the timeout, at once with DONTWAIT."""
    dealer = socket(zmq.DEALER, sndtimeo=10)
    with pytest.raises(zmq.Again):
        dealer.send(b"x")


def test_router_puts_the_senders_id_first(socket):
    """A ROUTER SHALL prepend the routing id, and route by the first part; ids it makes up are a
    zero byte and four more.
    """
    router, named, unnamed = socket(zmq.ROUTER), socket(zmq.DEALER, identity=b"X"), None
    router.bind(URL)
    named.connect(URL)
    named.send_multipart([b"a", b"b"])
    assert router.recv_multipart() == [b"X", b"a", b"b"]
    unnamed = socket(zmq.DEALER)
    unnamed.connect(URL)
    unnamed.send(b"c")
    made_up, data = router.recv_multipart()
    assert (len(made_up), made_up[:1], data) == (5, b"\0", b"c")
    router.send_multipart([made_up, b"1", b"2"])
    router.send_multipart([b"X", b"3"])
    assert unnamed.recv_multipart() == [b"1", b"2"]
    assert named.recv_multipart() == [b"3"]


def test_unknown_ids_are_dropped(socket):
    """What is sent to an unknown id is dropped, all its parts."""
    router, dealer = socket(zmq.ROUTER), socket(zmq.DEALER, identity=b"X")
    router.bind(URL)
    dealer.connect(URL)
    router.send_multipart([b"unknown", b"a", b"b"])
    router.send_multipart([b"X", b"c"])
    assert dealer.recv_multipart() == [b"c"]


def test_mandatory(socket):
    """ROUTER_MANDATORY: an unknown id is EHOSTUNREACH, and a later message to a known one goes
    through.
    """
    router, dealer = socket(zmq.ROUTER, router_mandatory=1), socket(zmq.DEALER, identity=b"X")
    router.bind(URL)
    with pytest.raises(zmq.ZMQError) as caught:
        router.send_multipart([b"X", b"early"])
    assert caught.value.errno == zmq.EHOSTUNREACH
    dealer.connect(URL)
    router.send_multipart([b"X", b"hello"])
    assert dealer.recv() == b"hello"


def test_mandatory_says_again_when_full(socket):
    """ROUTER_MANDATORY with SNDHWM and RCVHWM 1: the third message is Again, not dropped."""
    router = socket(zmq.ROUTER, router_mandatory=1, sndhwm=1)
    dealer = socket(zmq.DEALER, identity=b"X", rcvhwm=1)
    router.bind(URL)
    dealer.connect(URL)
    for n in range(2):
        router.send_multipart([b"X", b"%d" % n], zmq.DONTWAIT)
    with pytest.raises(zmq.Again):
        router.send_multipart([b"X", b"2"], zmq.DONTWAIT)
    assert dealer.recv() == b"0"
    router.send_multipart([b"X", b"2"], zmq.DONTWAIT)
    assert [dealer.recv(), dealer.recv()] == [b"1", b"2"]


def test_without_mandatory_full_means_dropped(socket):
    """A full peer misses whole messages."""
    router, dealer = socket(zmq.ROUTER, sndhwm=1), socket(zmq.DEALER, identity=b"X", rcvhwm=1)
    router.bind(URL)
    dealer.connect(URL)
    for n in range(5):
        router.send_multipart([b"X", b"a", b"%d" % n])
    got = []
    while dealer.poll(0):
        got.append(dealer.recv_multipart())
    assert got == [[b"a", b"0"], [b"a", b"1"]]


def test_a_duplicate_id_is_ignored(socket):
    """A peer with an id that is taken is ignored; the first keeps it."""
    router, first, second = socket(zmq.ROUTER), *(socket(zmq.DEALER, identity=b"X") for _ in "ab")
    router.bind(URL)
    first.connect(URL)
    second.connect(URL)
    second.send(b"unheard")
    first.send(b"heard")
    assert router.recv_multipart() == [b"X", b"heard"]
    assert router.poll(0) == 0
    router.send_multipart([b"X", b"back"])
    assert first.recv() == b"back"


def test_handover(socket):
    """ROUTER_HANDOVER: the second peer with an id takes it over."""
    router = socket(zmq.ROUTER, router_handover=1)
    first, second = (socket(zmq.DEALER, identity=b"X") for _ in "ab")
    router.bind(URL)
    first.connect(URL)
    first.send(b"one")
    assert router.recv_multipart() == [b"X", b"one"]
    second.connect(URL)
    second.send(b"two")
    assert router.recv_multipart() == [b"X", b"two"]
    router.send_multipart([b"X", b"to second"])
    assert second.recv() == b"to second"
    assert first.poll(0) == 0


def test_probe_router(socket):
    """PROBE_ROUTER: an empty message announces a new peer to a ROUTER."""
    router, dealer = socket(zmq.ROUTER), socket(zmq.DEALER, identity=b"X", probe_router=1)
    router.bind(URL)
    dealer.connect(URL)
    assert router.recv_multipart() == [b"X", b""]
    router.send_multipart([b"X", b"hello"])
    assert dealer.recv() == b"hello"


def test_a_peer_that_goes_inside_a_message_to_it(socket):
    """A ROUTER whose peer leaves between two parts drops the rest, and serves the others."""
    router, gone, stays = (
        socket(zmq.ROUTER),
        *(socket(zmq.DEALER, identity=i) for i in (b"X", b"Y")),
    )
    router.bind(URL)
    gone.connect(URL)
    stays.connect(URL)
    router.send(b"X", zmq.SNDMORE)
    router.send(b"a", zmq.SNDMORE)
    gone.close()
    while not gone._core.destroyed:
        router.get(zmq.EVENTS)
    router.send(b"b")
    router.send_multipart([b"Y", b"c"])
    assert stays.recv() == b"c"


def test_all_messages_of_a_closed_peer_arrive(socket):
    """What a peer sent before it closed is received, under its id."""
    router, dealer = socket(zmq.ROUTER), socket(zmq.DEALER, identity=b"X")
    router.bind(URL)
    dealer.connect(URL)
    for n in range(10):
        dealer.send_multipart([b"%d" % n, b"more"])
    dealer.close()
    got = [router.recv_multipart() for _ in range(10)]
    assert got == [[b"X", b"%d" % n, b"more"] for n in range(10)]


@pytest.mark.parametrize("seen", ["by a poll", "its first part"])
def test_a_handover_keeps_the_parts_of_a_message_together(socket, seen):
    """The message that is being received is whole; then the next peer's come."""
    router = socket(zmq.ROUTER, router_handover=1)
    router.bind(URL)
    old = socket(zmq.DEALER, identity=b"X")
    old.connect(URL)
    old.send_multipart([b"a1", b"a2", b"a3"])
    received = []
    if seen == "by a poll":
        assert router.poll(0) == zmq.POLLIN
    else:
        received = [router.recv(), router.recv()]
    new = socket(zmq.DEALER, identity=b"X")
    new.connect(URL)
    new.send_multipart([b"b1", b"b2"])
    received += router.recv_multipart()
    assert received == [b"X", b"a1", b"a2", b"a3"]
    assert router.recv_multipart() == [b"X", b"b1", b"b2"]
    router.send_multipart([b"X", b"for the new one"])
    assert new.recv() == b"for the new one"
    with pytest.raises(zmq.Again):
        router.recv(zmq.NOBLOCK)


@pytest.mark.parametrize("bound_first", [True, False])
def test_the_id_that_a_router_gives_to_the_peer_it_connects_to(socket, bound_first):
    """CONNECT_ROUTING_ID is for one connection; messages come behind the id, and go by it."""
    client, server = socket(zmq.ROUTER, router_mandatory=1), socket(zmq.DEALER)
    if bound_first:
        server.bind(URL)
    client.connect_routing_id = b"srv"
    client.connect(URL)
    client.send_multipart([b"srv", b"hello"])
    if not bound_first:
        server.bind(URL)
    assert server.recv() == b"hello"
    server.send(b"back")
    assert client.recv_multipart() == [b"srv", b"back"]
    other = socket(zmq.DEALER)
    other.bind(URL + "2")
    client.connect(URL + "2")
    other.send(b"who am I")
    assert client.recv_multipart()[0][:1] == b"\0"


@pytest.mark.parametrize("handover", [0, 1])
def test_an_id_given_twice(socket, handover):
    """libzmq aborts; here the second connect is refused, or the new peer takes the id over."""
    client = socket(zmq.ROUTER, router_handover=handover)
    servers = [socket(zmq.DEALER) for _ in range(2)]
    for number, server in enumerate(servers):
        server.bind(f"{URL}{number}")
    client.connect_routing_id = b"unused"
    client.connect_routing_id = b"srv"
    client.connect(f"{URL}0")
    client.connect_routing_id = b"srv"
    if handover:
        client.connect(f"{URL}1")
    else:
        with pytest.raises(zmq.ZMQError) as caught:
            client.connect(f"{URL}1")
        assert caught.value.errno == zmq.EADDRINUSE
        client.connect_routing_id = b"other"
        client.connect(f"{URL}1")
    client.send_multipart([b"srv", b"hello"])
    assert servers[handover].recv() == b"hello"
    with pytest.raises(zmq.Again):
        servers[1 - handover].recv(zmq.NOBLOCK)


def test_ids_that_a_router_makes_up_are_not_those_of_another(ctx):
    """A message to an address of an earlier socket must reach no other peer."""
    ids = set()
    for number in range(5):
        with ctx.socket(zmq.ROUTER) as router, ctx.socket(zmq.DEALER) as dealer:
            router.bind(f"{URL}-{number}")
            dealer.connect(f"{URL}-{number}")
            dealer.send(b"")
            ids.add(router.recv_multipart()[0])
    assert len(ids) == 5
