"""Commands: the only way one thread acts on an object that another thread owns.

The destination's thread takes the command from its mailbox and calls `deliver`, which calls a
method `process_...`. Commands are immutable, any thread may have them, and they know neither pipes
nor sockets.

A socket's mailbox keeps each command until it has been delivered: after an interrupt, a delivery is
repeated. So steps that cannot be repeated come last, without calls.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mq.errors import ZMQError
from mq.pipes.flow_control import HighWaterMarks


@dataclass(frozen=True, slots=True)
class Command:
    """A request for the thread that owns `destination`. Base of all commands."""

    destination: Any

    def deliver(self) -> None:
        """Carry the command out, in the thread that owns the destination."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Stop(Command):
    """To a socket: fail all calls but close. To the reaper: terminate the context."""

    def deliver(self) -> None:
        self.destination.process_stop()


@dataclass(frozen=True, slots=True)
class Adopt(Command):
    """To an owner: own `child` from now on (libzmq's own and reap)."""

    child: Any

    def deliver(self) -> None:
        self.destination.process_adopt(self.child)


@dataclass(frozen=True, slots=True)
class Term(Command):
    """To a child: terminate everything below you, then yourself."""

    def deliver(self) -> None:
        self.destination.process_term()


@dataclass(frozen=True, slots=True)
class TermAck(Command):
    """To an owner: a child has been destroyed."""

    def deliver(self) -> None:
        self.destination.process_term_ack()


@dataclass(frozen=True, slots=True)
class Bind(Command):
    """To a bound socket: the announced end of a new connection."""

    pipe: Any

    def deliver(self) -> None:
        self.destination.process_bind(self.pipe)


@dataclass(frozen=True, slots=True)
class InprocConnected(Command):
    """To the end that connected before the bind: the peer's properties."""

    hwms: HighWaterMarks
    routing_id: bytes

    def deliver(self) -> None:
        self.destination.process_inproc_connected(self.hwms, self.routing_id)


@dataclass(frozen=True, slots=True)
class ActivateRead(Command):
    """To a reader's end with an empty pipe: more messages arrived."""

    def deliver(self) -> None:
        self.destination.process_activate_read()


@dataclass(frozen=True, slots=True)
class ActivateWrite(Command):
    """To a writer's end: how many messages its peer has read."""

    msgs_read: int

    def deliver(self) -> None:
        self.destination.process_activate_write(self.msgs_read)


@dataclass(frozen=True, slots=True)
class PipeHwm(Command):
    """To a pipe's end: its peer's high-water marks have changed."""

    hwms: HighWaterMarks

    def deliver(self) -> None:
        self.destination.process_pipe_hwm(self.hwms)


@dataclass(frozen=True, slots=True)
class PipeTerm(Command):
    """To a pipe's end: its peer ends the connection."""

    def deliver(self) -> None:
        self.destination.process_pipe_term()


@dataclass(frozen=True, slots=True)
class PipeTermAck(Command):
    """To a pipe's end: its peer will touch neither direction again."""

    def deliver(self) -> None:
        self.destination.process_pipe_term_ack()


@dataclass(frozen=True, slots=True)
class Call(Command):
    """To a socket, from its own thread: make a repeatable call.

    `errors`: for the caller to raise.
    """

    call: Callable[[], None]
    errors: list[ZMQError] = field(default_factory=list)

    def deliver(self) -> None:
        try:
            self.call()
        except ZMQError as error:
            self.errors.append(error)


@dataclass(frozen=True, slots=True)
class ReapDone(Command):
    """To a context: the reaper has seen the last socket end."""

    def deliver(self) -> None:
        """Do nothing: the command is the information."""


@dataclass(frozen=True, slots=True)
class WakeUp(Command):
    """To a socket: makes its descriptor readable for pollers."""

    def deliver(self) -> None:
        """Do nothing: the signal is the purpose."""
