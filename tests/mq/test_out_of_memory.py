"""Sockets whose allocations fail, one after the other: what was sent arrives, once, in order."""

from functools import partial

import pytest

import mq
from _purgatory_cpython.atomicity import COMPILED
from mq.sockets.base import SocketBase
from tests.testing.leaks import assert_terminates, close_all, new_context
from tests.testing.out_of_memory import Scene, play_in_process

# More than a chunk of a queue has room for.
COUNT = 600


class SocketScene(Scene):
    """Two connected sockets of one thread."""

    kinds = (mq.PULL, mq.PUSH)

    def __init__(self, width):
        self.ctx = new_context()
        self.one, self.two = (self.ctx.socket(kind) for kind in self.kinds)
        for socket in (self.one, self.two):
            socket.set_hwm(0)
        self.one.bind("inproc://a")
        self.two.connect("inproc://a")
        self.one.getsockopt(mq.EVENTS)
        self.sent = [f"{n}".encode() for n in range(COUNT)]
        super().__init__(self.make_steps(), width)

    def received(self):
        """Return what there is to be received."""
        found = []
        while self.one.poll(0):
            found.append(self.one.recv_multipart(mq.DONTWAIT))
        return found

    def finish(self):
        """Assert that all ends."""
        close_all([self.one, self.two])
        assert_terminates(self.ctx)


class Send(SocketScene):
    """`send`."""

    def make_steps(self):
        return [partial(self.two.send, part, mq.DONTWAIT) for part in self.sent]

    def check(self):
        arrived = [parts[0] for parts in self.received()]
        accepted = [self.sent[n] for n in range(COUNT) if not self.raised[n]]
        assert [part for part in arrived if part in set(accepted)] == accepted
        assert len(set(arrived)) == len(arrived)
        self.finish()


class SendMultipart(SocketScene):
    """`send_multipart`: whole messages only."""

    def make_steps(self):
        return [
            partial(self.two.send_multipart, [part, b"", part], mq.DONTWAIT) for part in self.sent
        ]

    def check(self):
        arrived = self.received()
        accepted = [[part, b"", part] for n, part in enumerate(self.sent) if not self.raised[n]]
        assert [parts for parts in arrived if parts in accepted] == accepted
        assert all(len(parts) == 3 and parts[0] == parts[2] for parts in arrived)
        self.finish()


class Recv(SocketScene):
    """`recv`: a message that could not be returned is returned later."""

    def make_steps(self):
        for part in self.sent:
            self.two.send(part)
        return [partial(self.one.recv, mq.DONTWAIT)] * COUNT

    def check(self):
        results = [part for part in self.results if part is not None]
        assert results + [parts[0] for parts in self.received()] == self.sent
        self.finish()


class Exchange(SocketScene):
    """`send` and `recv` in turn, through which commands go both ways."""

    kinds = (mq.DEALER, mq.DEALER)

    def make_steps(self):
        for socket in (self.one, self.two):
            socket.set_hwm(4)
        steps = []
        for part in self.sent[:300]:
            steps += [self.send_if_room(part), self.receive]
        return steps

    def send_if_room(self, part):
        def send():
            try:
                self.two.send(part, mq.DONTWAIT)
            except mq.Again:
                return False
            return True

        return send

    def receive(self):
        try:
            return self.one.recv(mq.DONTWAIT)
        except mq.Again:
            return None

    def check(self):
        results = [part for part in self.results if isinstance(part, bytes)]
        results += [parts[0] for parts in self.received()]
        accepted = [self.sent[n // 2] for n in range(0, 600, 2) if self.results[n] is True]
        assert [part for part in results if part in set(accepted)] == accepted
        assert len(set(results)) == len(results)
        self.two.send(b"again")
        assert self.one.recv() == b"again"
        self.finish()


@pytest.mark.parametrize("scene", [Send, SendMultipart, Recv, Exchange])
def test_sockets_without_memory(scene):
    """Each allocation fails in turn: nothing is lost or doubled, and the sockets end."""
    play_in_process(scene)


@pytest.mark.skipif(COMPILED, reason="a compiled method cannot be replaced")
def test_parts_are_taken_back_when_there_is_memory_again(monkeypatch):
    """What `send_multipart` had sent when memory ran out is part of no later message."""
    ctx = new_context()
    one, two = ctx.socket(mq.PAIR), ctx.socket(mq.PAIR)
    one.bind("inproc://a")
    two.connect("inproc://a")
    rollback, short = SocketBase.rollback, iter(range(3))

    def roll_back_later(core):
        if next(short, None) is not None:
            raise MemoryError
        rollback(core)

    monkeypatch.setattr(SocketBase, "rollback", roll_back_later)
    two.send(b"begun", mq.SNDMORE)
    monkeypatch.setattr(SocketBase, "send", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        two.send_multipart([b"rest"])
    monkeypatch.undo()
    two.send(b"next")
    assert one.recv_multipart() == [b"next"]
    close_all([one, two])
    assert_terminates(ctx, "parts taken back")
