"""Scenes: each sets sockets up, yields a call that is interrupted, and checks what that has left.

A scene is a generator of a context. What it checks: messages are whole, none is lost or doubled
but one whose `send` was interrupted, and the sockets still work in both directions.
"""

import errno
from functools import partial
from time import monotonic

import mq

PATIENCE_S = 10.0  # only a hang takes so long

PAIRS = {
    "pair": (mq.PAIR, mq.PAIR),
    "push and pull": (mq.PULL, mq.PUSH),
    "dealers": (mq.DEALER, mq.DEALER),
    "router and dealer": (mq.ROUTER, mq.DEALER),
    "reply and request": (mq.REP, mq.REQ),
    "publisher and subscriber": (mq.PUB, mq.SUB),
    "xpub and xsub": (mq.XPUB, mq.XSUB),
}
PARTS = [b"1", b"2", b"3"]


def make(ctx, kind):
    """Two sockets that are not connected yet: the one to bind, the one to connect."""
    one, two = (ctx.socket(socket_type) for socket_type in PAIRS[kind])
    for socket in (one, two):
        socket.rcvtimeo = socket.sndtimeo = int(PATIENCE_S * 1000)
    if kind == "publisher and subscriber":
        two.subscribe(b"")
    return one, two


def link(one, two):
    """Connect them.  The commands that this sends are not delivered yet."""
    one.bind("inproc://a")
    two.connect("inproc://a")
    if two.type == mq.XSUB:
        two.send(b"\1")


def settle(*sockets):
    """Deliver all commands, and subscriptions."""
    for _ in range(3):
        for socket in sockets:
            socket.getsockopt(mq.EVENTS)
            if socket.type == mq.XPUB:
                drain(socket)


def drain(socket):
    """The messages that are here."""
    received = []
    try:
        while True:
            received.append(socket.recv_multipart(mq.DONTWAIT))
    except mq.ZMQError:  # Again, or a request that is due first
        return received


def repeat(call, error_number):
    """Make a call that was interrupted again; the error says that it was made."""
    try:
        call("inproc://a")
    except mq.ZMQError as error:
        if error.errno != error_number:
            raise


def wait_until(condition, *sockets):
    """Deliver commands until `condition` holds."""
    deadline = monotonic() + PATIENCE_S
    while not condition():
        assert monotonic() < deadline, "never came true"
        for socket in sockets:
            socket.poll(1, mq.POLLIN)
            if socket.type in (mq.PUB, mq.XPUB, mq.ROUTER, mq.DEALER):
                drain(socket)


def has_pipes(socket, number):
    """Whether the socket has so many connections."""
    return lambda: len(socket._core._pipes) == number


def roles(one, two):
    """The socket that sends first, and the one that receives."""
    return (one, two) if one.type in (mq.PUB, mq.XPUB) else (two, one)


def body(socket, message):
    """A message without its sender's id."""
    return message[1:] if socket.type == mq.ROUTER else message


def assert_works(one, two):
    """A message goes through in each direction in which the types of the sockets send."""
    settle(one, two)
    sender, receiver = roles(one, two)
    sender.send_multipart([b"there", b"1"])
    there = receiver.recv_multipart()
    assert body(receiver, there) == [b"there", b"1"], there
    if one.type in (mq.PAIR, mq.DEALER, mq.ROUTER, mq.REP):
        receiver.send_multipart([*there[: len(there) - 2], b"back", b"1"])
        assert sender.recv_multipart() == [b"back", b"1"]


def take(received, socket):
    """Receive a message into a list: no interrupt can come between the two."""
    received.extend(map(socket.recv_multipart, (0,)))


def take_parts(received, socket):
    """Likewise, part by part."""
    received.extend(map(socket.recv, (0,)))
    while socket.rcvmore:
        received.extend(map(socket.recv, (0,)))


# -- the scenes ----------------------------------------------------------------------------------


def first_recv(kind, ctx):
    """The first `recv`, which also takes the commands of the connection."""
    one, two = make(ctx, kind)
    link(one, two)
    sender, receiver = roles(one, two)
    if kind in ("publisher and subscriber", "xpub and xsub"):
        settle(one, two)
    sender.send_multipart(PARTS)
    received = []
    yield partial(take, received, receiver)
    received += drain(receiver)
    assert [body(receiver, message) for message in received] == [PARTS]
    if kind == "reply and request":
        receiver.send(b"reply")
        assert sender.recv() == b"reply"
    assert_works(one, two)


def recv_in_parts(kind, ctx):
    """A message that is received part by part: none is missing, none comes twice."""
    one, two = make(ctx, kind)
    link(one, two)
    settle(one, two)
    sender, receiver = roles(one, two)
    sender.send_multipart(PARTS)
    parts = []
    yield partial(take_parts, parts, receiver)
    take_rest(parts, receiver)
    assert body(receiver, parts) == PARTS
    if kind == "reply and request":
        receiver.send(b"reply")
        assert sender.recv() == b"reply"
    assert_works(one, two)


def take_rest(parts, receiver):
    """The parts that an interrupt has left."""
    for rest in drain(receiver):
        parts += rest


def second_recv(kind, ctx):
    """A `recv` that takes a wake-up, of a pipe that was found empty."""
    one, two = make(ctx, kind)
    link(one, two)
    settle(one, two)
    sender, receiver = roles(one, two)
    assert drain(receiver) == []
    sender.send_multipart(PARTS)
    received = []
    yield partial(take, received, receiver)
    received += drain(receiver)
    assert [body(receiver, message) for message in received] == [PARTS]
    if kind == "reply and request":
        receiver.send(b"reply")
        assert sender.recv() == b"reply"
    assert_works(one, two)


def send(kind, ctx):
    """The first `send` of one part, which also takes the commands of the connection."""
    yield from _send(kind, ctx, [b"x"])


def send_multipart(kind, ctx):
    """Likewise of several parts: all are sent or none."""
    yield from _send(kind, ctx, PARTS)


def _send(kind, ctx, parts):
    one, two = make(ctx, kind)
    link(one, two)
    sender, receiver = roles(one, two)
    if kind in ("publisher and subscriber", "xpub and xsub"):
        settle(one, two)
        assert drain(receiver) == []
    yield partial(sender.send_multipart, parts)
    settle(one, two)
    received = [body(receiver, message) for message in drain(receiver)]
    assert received in ([parts], []), received
    if kind == "reply and request" and received:
        receiver.send(b"reply")
        assert sender.recv() == b"reply"
    assert_works(one, two)


def reply(kind, ctx):
    """A reply to a request or message."""
    one, two = make(ctx, kind)
    link(one, two)
    settle(one, two)
    two.send(b"x")
    *envelope, request = one.recv_multipart()
    assert request == b"x"
    yield partial(one.send_multipart, [*envelope, *PARTS])
    settle(one, two)
    received = drain(two)
    assert received in ([PARTS], []), received
    if kind == "reply and request" and not received:
        one.send(b"reply")
        assert two.recv() == b"reply"
    assert_works(one, two)


def send_when_full(kind, ctx):
    """A `send` that takes the command which says that there is room again."""
    one, two = make(ctx, kind)
    for socket in (one, two):
        socket.set_hwm(2)
    link(one, two)
    settle(one, two)
    sent = 0
    while two.poll(0, mq.POLLOUT):
        two.send(b"%d" % sent)
        sent += 1
    received = [body(one, one.recv_multipart())[0] for _ in range(sent)]
    assert received == [b"%d" % number for number in range(sent)]
    yield partial(two.send, b"x")
    settle(two)
    rest = [body(one, message) for message in drain(one)]
    assert rest in ([[b"x"]], [])
    assert_works(one, two)


def recv_when_full(kind, ctx):
    """A `recv` that has to report that there is room again."""
    one, two = make(ctx, kind)
    for socket in (one, two):
        socket.set_hwm(1)
    link(one, two)
    settle(one, two)
    for number in range(2):
        two.send(b"%d" % number)
    assert not two.poll(0, mq.POLLOUT)
    received = []
    yield partial(take, received, one)
    received += drain(one)
    assert [body(one, message) for message in received] == [[b"0"], [b"1"]]
    assert two.poll(0, mq.POLLOUT)
    assert_works(one, two)


def poll(kind, ctx):
    """A `poll` that takes the commands of the connection."""
    one, two = make(ctx, kind)
    link(one, two)
    settle(two)
    yield partial(one.poll, 0, mq.POLLIN | mq.POLLOUT)
    assert_works(one, two)


def connect(kind, ctx):
    """A `connect` to a bound socket: made, or made by the next call, or not begun."""
    one, two = make(ctx, kind)
    one.bind("inproc://a")
    yield partial(two.connect, "inproc://a")
    _connect_if_not_begun(two)
    assert_works(one, two)


def connect_first(kind, ctx):
    """A `connect` to a name that is bound later."""
    one, two = make(ctx, kind)
    yield partial(two.connect, "inproc://a")
    _connect_if_not_begun(two)
    one.bind("inproc://a")
    assert_works(one, two)


def _connect_if_not_begun(two):
    settle(two)
    if not two._core._pipes:
        two.connect("inproc://a")
    assert len(two._core._pipes) == 1
    if two.type == mq.XSUB:
        two.send(b"\1")


def bind(kind, ctx):
    """A `bind` for which connections wait: made, or made by the next call, or not begun."""
    one, two = make(ctx, kind)
    others = [ctx.socket(PAIRS[kind][1]) for _ in range(2)] if one.type != mq.PAIR else []
    two.connect("inproc://a")
    for other in others:
        other.connect("inproc://a")
    yield partial(one.bind, "inproc://a")
    settle(one)
    repeat(one.bind, errno.EADDRINUSE)
    settle(one, *others)
    assert len(one._core._pipes) == len(others) + 1
    for other in others:
        other.close()
    if two.type == mq.XSUB:
        two.send(b"\1")
    wait_until(has_pipes(one, 1), one)
    assert_works(one, two)


def disconnect(kind, ctx):
    """A `disconnect`: both sockets can be connected anew."""
    yield from _disconnect(kind, ctx, bound=True)


def disconnect_pending(kind, ctx):
    """Likewise, where there was no bind."""
    yield from _disconnect(kind, ctx, bound=False)


def _disconnect(kind, ctx, bound):
    one, two = make(ctx, kind)
    if bound:
        one.bind("inproc://a")
    two.connect("inproc://a")
    settle(one, two)
    yield partial(two.disconnect, "inproc://a")
    settle(two)
    repeat(two.disconnect, errno.ENOENT)
    wait_until(has_pipes(two, 0), one, two)
    wait_until(has_pipes(one, 0), one, two)
    if not bound:
        one.bind("inproc://a")
    two.connect("inproc://a")
    if two.type == mq.XSUB:
        two.send(b"\1")
    assert_works(one, two)


def peer_goes(kind, ctx):
    """A `poll` that takes the end of a connection."""
    one, two = make(ctx, kind)
    other = ctx.socket(PAIRS[kind][1])
    one.bind("inproc://a")
    other.connect("inproc://a")
    settle(one, other)
    other.close()
    wait_until(one._core.mailbox.peek)
    yield partial(one.poll, 0, mq.POLLIN | mq.POLLOUT)
    wait_until(has_pipes(one, 0), one)
    two.connect("inproc://a")
    if two.type == mq.XSUB:
        two.send(b"\1")
    assert_works(one, two)


def unbind(kind, ctx):
    """An `unbind`: the name is free at once, and the connection stays."""
    one, two = make(ctx, kind)
    link(one, two)
    yield partial(one.unbind, "inproc://a")
    repeat(one.unbind, errno.ENOENT)
    ctx.socket(mq.PAIR).bind("inproc://a")
    assert_works(one, two)


def change_hwm(kind, ctx):
    """A change of the high-water marks of a connection that is full."""
    one, two = make(ctx, kind)
    for socket in (one, two):
        socket.set_hwm(1)
    link(one, two)
    settle(one, two)
    two.send(b"0")
    two.send(b"1")
    assert not two.poll(0, mq.POLLOUT)
    yield partial(two.set_hwm, 10)
    two.set_hwm(10)
    settle(one, two)
    assert two.poll(0, mq.POLLOUT)
    assert [body(one, message) for message in drain(one)] == [[b"0"], [b"1"]]
    assert_works(one, two)


def make_socket(kind, ctx):
    """The making of a context's first socket: it is returned, or closed."""
    made = []
    yield lambda: made.extend(map(ctx.socket, (PAIRS[kind][0],)))
    one, two = make(ctx, kind)
    link(one, two)
    assert_works(one, two)


def close(kind, ctx):
    """A `close`: called again, or made by `destroy`."""
    one, two = make(ctx, kind)
    link(one, two)
    settle(one, two)
    yield two.close
    two.close()
    three = make(ctx, kind)[1]
    wait_until(has_pipes(one, 0), one)
    three.connect("inproc://a")
    if three.type == mq.XSUB:
        three.send(b"\1")
    assert_works(one, three)


def destroy(kind, ctx):
    """A `destroy`, and with it `close` and `term`: repeated, it returns."""
    one, two = make(ctx, kind)
    link(one, two)
    yield ctx.destroy


def term(kind, ctx):
    """A `term` after all sockets were closed: repeated, it returns."""
    one, two = make(ctx, kind)
    link(one, two)
    ctx.socket(PAIRS[kind][1]).connect("inproc://nothing")
    for socket in list(ctx._sockets):
        socket.close()
    yield ctx.term


EVERY = list(PAIRS)
BOTH_WAYS = ["pair", "dealers", "router and dealer", "reply and request"]
FLOWING = ["pair", "push and pull", "dealers", "router and dealer"]

#: All scenes by name, and the kinds of sockets each is played with.
SCENES = {
    first_recv: EVERY,
    second_recv: EVERY,
    recv_in_parts: EVERY,
    send: EVERY,
    send_multipart: EVERY,
    reply: BOTH_WAYS,
    send_when_full: FLOWING,
    recv_when_full: FLOWING,
    poll: EVERY,
    connect: EVERY,
    connect_first: EVERY,
    bind: EVERY,
    disconnect: EVERY,
    disconnect_pending: EVERY,
    peer_goes: EVERY,
    unbind: EVERY,
    change_hwm: FLOWING,
    make_socket: ["pair", "publisher and subscriber"],
    close: EVERY,
    destroy: EVERY,
    term: EVERY,
}
