"""Classes of programs that inherit ours, which may be compiled."""

import sys
from dataclasses import dataclass

import pytest

import mq


def test_queue_layers_can_be_subclassed():
    """A program's queue, pipe, mailbox and signaler add to what ours do."""

    class Queue(mq.YQueue):
        def push(self, value):
            super().push((value, "pushed"))

    class Pipe(mq.YPipe):
        def flush(self):
            self.flushed = True
            return super().flush()

    class Mailbox(mq.Mailbox):
        def send(self, command):
            super().send(("sent", command))

    class Signaler(mq.Signaler):
        name = "mine"

    queue, pipe, mailbox, signaler = Queue(2), Pipe(2), Mailbox(), Signaler()
    queue.push(1)
    assert queue.pop() == (1, "pushed")
    pipe.write(1)
    assert pipe.flush()
    assert (pipe.read(), pipe.flushed) == (1, True)
    mailbox.send(1)
    assert mailbox.recv(0) == ("sent", 1)
    signaler.send()
    assert signaler.recv()
    mailbox.close()
    signaler.close()


def test_commands_can_be_subclassed():
    """A program's command is one of ours."""

    @dataclass(frozen=True, slots=True)
    class Count(mq.Command):
        number: int

        def deliver(self):
            self.destination.append(self.number)

    got = []
    mailbox = mq.Mailbox()
    mailbox.send(Count(got, 3))
    mailbox.recv(0).deliver()
    assert got == [3]
    mailbox.close()


def test_sockets_can_be_subclassed(ctx):
    """What a program's socket overrides is what multipart messages go through."""

    class Counting(mq.Socket):
        sent: int = 0

        def send(self, data, *args, **kwargs):
            self.sent += 1
            return super().send(data, *args, **kwargs)

        def recv(self, *args, **kwargs):
            return super().recv(*args, **kwargs) + b"!"

    one, two = (ctx.socket(mq.PAIR, socket_class=Counting) for _ in range(2))
    one.bind("inproc://a")
    two.connect("inproc://a")
    one.send_multipart([b"x", b"y"])
    assert two.recv_multipart() == [b"x!", b"y!"]
    assert (one.sent, two.sent) == (2, 0)
    one.close()
    two.close()


@pytest.mark.parametrize(
    "annotation",
    [
        "str",
        "'NameForTypeCheckers'",
        pytest.param(
            "NameForTypeCheckers",
            marks=pytest.mark.skipif(
                sys.version_info < (3, 14), reason="annotations are evaluated with their class"
            ),
        ),
    ],
)
def test_a_subclass_may_set_what_it_annotates(annotation):
    """What a class annotates is its own, no option, though the annotation cannot be evaluated."""
    namespace = {"mq": mq}
    exec(f"class Labelled(mq.Context):\n    label: {annotation}", namespace)
    with namespace["Labelled"]() as context:
        context.label = "mine"
        assert context.label == "mine"
        with pytest.raises(AttributeError, match="no such option"):
            context.other = "not annotated"
