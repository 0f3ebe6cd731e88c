"""Commands: immutable, delivered to their destination."""

import errno
from dataclasses import dataclass

import pytest

import mq
from mq.errors import ZMQError
from mq.pipes import commands
from mq.pipes.flow_control import HighWaterMarks


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


class Told:
    """A destination that notes which method is called, and with what."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *values: self.calls.append((name, *values))


HWMS = HighWaterMarks(1, 2)


@pytest.mark.parametrize(
    ("kind", "values", "method"),
    [
        (commands.Stop, (), "process_stop"),
        (commands.Adopt, ("child",), "process_adopt"),
        (commands.Term, (), "process_term"),
        (commands.TermAck, (), "process_term_ack"),
        (commands.Bind, ("pipe",), "process_bind"),
        (commands.InprocConnected, (HWMS, b"me"), "process_inproc_connected"),
        (commands.ActivateRead, (), "process_activate_read"),
        (commands.ActivateWrite, (3,), "process_activate_write"),
        (commands.PipeHwm, (HWMS,), "process_pipe_hwm"),
        (commands.PipeTerm, (), "process_pipe_term"),
        (commands.PipeTermAck, (), "process_pipe_term_ack"),
    ],
)
def test_each_command_has_its_method(kind, values, method):
    """The destination is told what the command carries."""
    told = Told()
    kind(told, *values).deliver()
    assert told.calls == [(method, *values)]


def test_a_call_keeps_the_error_for_its_caller():
    """ZeroMQ's errors alone."""

    def fail():
        raise raised.pop()

    raised = [ValueError("not ours"), ZMQError(errno.EAGAIN)]
    call = commands.Call(None, fail)
    call.deliver()
    assert [error.errno for error in call.errors] == [errno.EAGAIN]
    with pytest.raises(ValueError, match="not ours"):
        call.deliver()


def test_a_command_without_a_delivery_is_refused():
    """It would be lost in silence."""
    with pytest.raises(NotImplementedError):
        mq.Command("destination").deliver()
