"""How a socket carries out the commands in its mailbox."""

import pytest

import mq as zmq
from mq.pipes.commands import Call


class Interrupted:
    """A repeatable call that is interrupted the first time."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.calls == 1:
            raise KeyboardInterrupt


@pytest.fixture
def core(socket):
    """What is behind the handle of a socket."""
    return socket(zmq.PULL)._core


def test_a_command_that_is_interrupted_is_delivered_again(core):
    """It stays in the mailbox, and the descriptor signals that; delivered, it is gone."""
    call = Interrupted()
    core.mailbox.send(Call(core, call))
    with pytest.raises(KeyboardInterrupt):
        core.process_commands()
    assert core.mailbox.peek()
    core.process_commands()
    assert call.calls == 2
    core.process_commands()
    assert call.calls == 2


def test_commands_come_in_order(core):
    """As they were sent, and all of them at the next call on the socket."""
    done = []
    for number in range(3):
        core.mailbox.send(Call(core, lambda number=number: done.append(number)))
    core.process_commands()
    assert done == [0, 1, 2]


def test_a_closed_socket_is_refused(core):
    """ENOTSOCK; a second close does nothing."""
    core.close()
    core.close()
    with pytest.raises(zmq.ZMQError) as caught:
        core.send(b"x", 0)
    assert caught.value.errno == zmq.ENOTSOCK


def test_a_disowned_socket_is_refused(core):
    """As in a forked child, to which the parent's socket does not belong."""
    core.disown()
    with pytest.raises(zmq.ZMQError) as caught:
        core.recv(zmq.DONTWAIT)
    assert caught.value.errno == zmq.ENOTSOCK
    core.close()
    assert core.closed
    core._forked = core._handed_over = core.closed = False  # or the parent's would never end
    core.close()
