"""REQ and REP: lock-step, envelopes, REQ_RELAXED and REQ_CORRELATE."""

import pytest

import mq as zmq

URL = "inproc://reqrep"


def refused(call, *args):
    """Whether `call` fails with EFSM."""
    with pytest.raises(zmq.ZMQError) as caught:
        call(*args)
    return caught.value.errno == zmq.EFSM


def test_lockstep(socket):
    """A REQ SHALL NOT send before it has its reply, nor receive before it has asked; a REP the
    other way round.
    """
    rep, req = socket(zmq.REP), socket(zmq.REQ)
    rep.bind(URL)
    req.connect(URL)
    assert refused(req.recv)
    assert refused(rep.send, b"x")
    req.send(b"ask")
    assert refused(req.send, b"again")
    assert rep.recv() == b"ask"
    assert refused(rep.recv)
    rep.send(b"answer")
    assert req.recv() == b"answer"
    assert refused(rep.send, b"x")


def test_multipart_both_ways(socket):
    """Requests and replies may have many parts."""
    rep, req = socket(zmq.REP), socket(zmq.REQ)
    rep.bind(URL)
    req.connect(URL)
    req.send_multipart([b"a", b"", b"b"])
    assert rep.recv_multipart() == [b"a", b"", b"b"]
    rep.send_multipart([b"", b"c"])
    assert req.recv_multipart() == [b"", b"c"]


def test_requests_go_round_robin(socket):
    """A REQ SHALL give its requests to its peers in turn: five services, each asked twice."""
    req = socket(zmq.REQ)
    req.bind(URL)
    reps = [socket(zmq.REP) for _ in range(5)]
    for rep in reps:
        rep.connect(URL)
    for _ in range(2):
        for rep in reps:
            req.send(b"ABC")
            assert rep.recv() == b"ABC"
            rep.send(b"DEF")
            assert req.recv() == b"DEF"


def test_a_rep_queues_fairly(socket):
    """A REP SHALL take requests from its peers in turn."""
    rep = socket(zmq.REP)
    rep.bind(URL)
    reqs = [socket(zmq.REQ) for _ in range(5)]
    for n, req in enumerate(reqs):
        req.connect(URL)
        req.send(b"%d" % n)
    for n, req in enumerate(reqs):
        assert rep.recv() == b"%d" % n
        rep.send(b"re:%d" % n)
        assert req.recv() == b"re:%d" % n


def test_the_envelope_comes_back(socket):
    """A REP SHALL put the envelope, all up to the empty part, before its reply: X, Y, "", A."""
    rep, dealer = socket(zmq.REP), socket(zmq.DEALER)
    rep.bind(URL)
    dealer.connect(URL)
    dealer.send_multipart([b"X", b"Y", b"", b"ask"])
    assert rep.recv_multipart() == [b"ask"]
    rep.send(b"A")
    assert dealer.recv_multipart() == [b"X", b"Y", b"", b"A"]


def test_a_request_without_an_envelope_is_dropped(socket):
    """What has no empty part is no request; the next one is served."""
    rep, dealer = socket(zmq.REP), socket(zmq.DEALER)
    rep.bind(URL)
    dealer.connect(URL)
    dealer.send(b"no envelope")
    dealer.send_multipart([b"X", b"Y"])
    assert rep.poll(0) == 0
    dealer.send_multipart([b"", b"ask"])
    assert rep.poll(0) == zmq.POLLIN
    assert rep.recv() == b"ask"


def test_a_reply_to_nobody_is_dropped(socket):
    """A REP takes the reply to a peer that has gone, drops it and serves the next."""
    rep, gone, req = socket(zmq.REP), socket(zmq.REQ), socket(zmq.REQ)
    rep.bind(URL)
    gone.connect(URL)
    gone.send(b"x")
    assert rep.recv() == b"x"
    gone.close()
    rep.send(b"to no peer")
    req.connect(URL)
    req.send(b"y")
    assert rep.recv() == b"y"
    rep.send(b"z")
    assert req.recv() == b"z"


def test_others_replies_are_not_taken(socket):
    """A REQ takes a reply only from the peer it asked, and only one that begins with an empty
    part; nothing else makes it readable.
    """
    req = socket(zmq.REQ)
    req.bind(URL)
    asked, other = socket(zmq.ROUTER), socket(zmq.DEALER)
    asked.connect(URL)
    req.send(b"ask")
    envelope = asked.recv_multipart()[:1]
    other.connect(URL)
    other.send_multipart([b"", b"not asked"])
    asked.send_multipart([*envelope, b"no empty part", b"x"])
    assert req.poll(0) == 0
    asked.send_multipart([*envelope, b"", b"answer"])
    assert req.poll(1000) == zmq.POLLIN
    assert req.recv_multipart() == [b"answer"]


def test_when_the_asked_peer_has_gone_anybody_may_reply(socket):
    """The reply pipe gone, a reply is accepted from any."""
    req = socket(zmq.REQ)
    req.bind(URL)
    asked = socket(zmq.REP)
    asked.connect(URL)
    req.send(b"ask")
    asked.close()
    other = socket(zmq.DEALER)
    other.connect(URL)
    while not asked._core.destroyed:
        req.get(zmq.EVENTS)  # its part of the handshake
    other.send_multipart([b"", b"from another"])
    assert req.recv() == b"from another"


def test_relaxed_may_ask_again(socket):
    """REQ_RELAXED: a request may follow a request; a reply to the first is not taken for one to
    the second if REQ_CORRELATE is set too.
    """
    req, router = socket(zmq.REQ, req_relaxed=1, req_correlate=1), socket(zmq.ROUTER)
    router.bind(URL)
    req.connect(URL)
    req.send(b"first")
    req.send(b"second")
    first, second = router.recv_multipart(), router.recv_multipart()
    assert (first[-1], second[-1]) == (b"first", b"second")
    assert len(first[1]) == 4
    assert first[1] != second[1]
    router.send_multipart([*first[:-1], b"stale"])
    router.send_multipart([*second[:-1], b"fresh"])
    assert req.recv() == b"fresh"


def test_relaxed_one_after_the_other(socket):
    """REQ_RELAXED: whole rounds still work, with one peer or two."""
    req = socket(zmq.REQ, req_relaxed=1, req_correlate=1)
    req.bind(URL)
    reps = [socket(zmq.REP), socket(zmq.REP)]
    for rep in reps:
        rep.connect(URL)
    for n in range(4):
        req.send(b"%d" % n)
        rep = reps[n % 2]
        assert rep.recv() == b"%d" % n
        rep.send(b"re")
        assert req.recv() == b"re"


def test_relaxed_reply_that_came_before_the_second_request(socket):
    """REQ_RELAXED: a reply that is here already when the next request is sent is dropped."""
    req, router = socket(zmq.REQ, req_relaxed=1), socket(zmq.ROUTER)
    router.bind(URL)
    req.connect(URL)
    req.send(b"first")
    router.send_multipart([*router.recv_multipart()[:-1], b"stale"])
    req.send(b"second")
    router.send_multipart([*router.recv_multipart()[:-1], b"fresh"])
    assert req.recv() == b"fresh"


def test_relaxed_when_the_peer_goes_and_another_comes(socket):
    """REQ_RELAXED: after its service has gone, a request can be asked of the next one."""
    req = socket(zmq.REQ, req_relaxed=1, req_correlate=1)
    req.bind(URL)
    first = socket(zmq.REP)
    first.connect(URL)
    req.send(b"x")
    assert first.recv() == b"x"
    first.close()
    second = socket(zmq.REP)
    second.connect(URL)
    while not req.get(zmq.EVENTS) & zmq.POLLOUT or not first._core.destroyed:
        pass
    req.send(b"y")
    assert second.recv() == b"y"
    second.send(b"z")
    assert req.recv() == b"z"


def test_correlate_ignores_wrong_ids(socket):
    """REQ_CORRELATE: replies with another id, a malformed one or none are ignored."""
    req, router = socket(zmq.REQ, req_correlate=1), socket(zmq.ROUTER)
    router.bind(URL)
    req.connect(URL)
    req.send(b"ask")
    peer, request_id, bottom, _ = router.recv_multipart()
    for wrong in ([b"", b"x"], [b"\xff\xff\xff\xff", b"", b"x"], [request_id, b"x"], [request_id]):
        router.send_multipart([peer, *wrong])
    router.send_multipart([peer, request_id, bottom, b"right"])
    assert req.recv_multipart() == [b"right"]


def test_no_peer_means_again_after_the_timeout(socket):
    """A REQ without peers blocks; SNDTIMEO ends that."""
    req = socket(zmq.REQ, sndtimeo=10)
    with pytest.raises(zmq.Again):
        req.send(b"x")
    with pytest.raises(zmq.Again):
        req.send(b"x", zmq.DONTWAIT)


def test_events_follow_the_state(socket):
    """A REQ is writable before, readable with its reply; a REP is writable only in between."""
    rep, req = socket(zmq.REP), socket(zmq.REQ)
    rep.bind(URL)
    req.connect(URL)
    assert (req.events, rep.events) == (zmq.POLLOUT, 0)
    req.send(b"x")
    assert (req.events, rep.events) == (0, zmq.POLLIN)
    rep.recv()
    assert rep.events == zmq.POLLOUT
    rep.send(b"y")
    assert (req.events, rep.events) == (zmq.POLLIN, 0)


def test_ids_of_requests_are_not_those_of_another_socket(ctx):
    """Else a late reply to an earlier socket, of the same identity, is taken for ours."""
    ids = set()
    for number in range(5):
        with ctx.socket(zmq.REQ) as asker, ctx.socket(zmq.ROUTER) as router:
            asker.req_correlate = 1
            router.bind(f"inproc://correlated-{number}")
            asker.connect(f"inproc://correlated-{number}")
            asker.send(b"ask")
            ids.add(router.recv_multipart()[1])
    assert len(ids) == 5
