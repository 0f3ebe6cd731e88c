"""proxy and devices."""

import pytest

import mq as zmq
import mq.asyncio
from mq import devices


def test_proxy_carries_both_ways_and_captures(ctx, socket, threads):
    """Requests and replies pass, whole, and the capture socket gets a copy of each."""
    capture = socket(zmq.PULL)
    capture.bind("inproc://capture")

    def run():
        with ctx.socket(zmq.ROUTER) as front, ctx.socket(zmq.DEALER) as back:
            with ctx.socket(zmq.PUSH) as copy:
                front.bind("inproc://front")
                back.bind("inproc://back")
                copy.connect("inproc://capture")
                try:
                    zmq.proxy(front, back, copy)
                except zmq.ContextTerminated:
                    pass

    threads.start(run)
    req, rep = socket(zmq.REQ), socket(zmq.REP)
    req.connect("inproc://front")
    rep.connect("inproc://back")
    for n in range(10):
        req.send_multipart([b"ask", b"%d" % n])
        assert rep.recv_multipart() == [b"ask", b"%d" % n]
        rep.send(b"answer %d" % n)
        assert req.recv() == b"answer %d" % n
    assert capture.recv_multipart()[2:] == [b"ask", b"0"]
    assert capture.recv_multipart()[2:] == [b"answer 0"]
    for made in (req, rep, capture):
        made.close()
    ctx.term()


def test_thread_device(ctx, socket):
    """A device of one socket echoes; it ends with its context."""
    device = devices.ThreadDevice(zmq.QUEUE, zmq.REP, -1)
    device.setsockopt_in(zmq.LINGER, 0)
    port = device.bind_in_to_random_port("inproc://device")
    device.start()
    shared = zmq.Context.instance()
    with shared.socket(zmq.REQ) as req:
        req.rcvtimeo = 30_000
        req.connect(f"inproc://device:{port}")
        req.send(b"hello")
        assert req.recv() == b"hello"
    shared.term()
    device.join(30)
    assert device.done


def test_thread_proxy(socket):
    """A proxy with a third socket, all three made in its thread."""
    device = devices.ThreadProxy(zmq.PULL, zmq.PUSH, zmq.PUSH)
    device.bind_in("inproc://in")
    device.bind_out("inproc://out")
    device.connect_mon("inproc://mon")
    shared = zmq.Context.instance()
    with shared.socket(zmq.PULL) as mon, shared.socket(zmq.PULL) as out:
        mon.bind("inproc://mon")
        mon.rcvtimeo = out.rcvtimeo = 30_000
        device.start()
        with shared.socket(zmq.PUSH) as push:
            out.connect("inproc://out")
            push.connect("inproc://in")
            push.send(b"x")
            assert [out.recv(), mon.recv()] == [b"x", b"x"]
    shared.term()
    device.join(30)


def test_a_proxy_of_asyncio_sockets(threads):
    """As in pyzmq, a proxy calls the sockets beneath the handles."""
    context = mq.asyncio.Context()
    made = [context.socket(kind) for kind in (zmq.PULL, zmq.PUSH, zmq.PUSH, zmq.PULL)]
    front, back, push, pull = made
    front.bind("inproc://front")
    back.bind("inproc://back")
    push.connect("inproc://front")
    pull.connect("inproc://back")
    threads.start(_run_proxy, front, back)
    zmq.Socket(push).send_multipart([b"a", b"b"])
    assert zmq.Socket(pull).recv_multipart() == [b"a", b"b"]
    push.close()
    pull.close()
    context.term()


@pytest.mark.parametrize("wrong", [None, "socket", 5])
def test_a_proxy_of_something_else_is_refused(socket, wrong):
    """At once, whichever argument."""
    pull = socket(zmq.PULL)
    for arguments in ((wrong, pull), (pull, wrong)):
        with pytest.raises((TypeError, zmq.ZMQError)):
            zmq.proxy(*arguments)


def _run_proxy(front, back):
    try:
        zmq.proxy(front, back)
    except zmq.ContextTerminated:
        pass
    finally:
        front.close()
        back.close()


@pytest.mark.parametrize("full_side", ["front", "back"])
def test_a_full_side_stops_one_direction_of_a_proxy(ctx, socket, threads, full_side):
    """As in libzmq: what goes to the other side passes, and so does the rest once there is room."""
    options = {"sndhwm": 1, "rcvhwm": 1}
    sides = {name: socket(zmq.DEALER, **options) for name in ("front", "back")}
    ends = {name: socket(zmq.DEALER, **options, sndtimeo=10_000) for name in sides}
    for name, side in sides.items():
        side.bind(f"inproc://{name}")
        ends[name].connect(f"inproc://{name}")
    threads.start(_run_proxy, sides["front"], sides["back"])
    full = ends.pop(full_side)
    (sender,) = ends.values()
    for n in range(4):  # two for each connection: the proxy finds no room at the side not read
        sender.send(b"%d" % n)
    for n in range(10):
        full.send(b"back %d" % n)
        assert sender.recv() == b"back %d" % n
    assert [full.recv() for _ in range(4)] == [b"%d" % n for n in range(4)]
    for made in (full, sender):
        made.close()
    ctx.term()
