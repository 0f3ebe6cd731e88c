"""Commands: all that one thread may do to an object of another is to send it one of these.

A command names its destination; the thread that owns the destination takes it from its mailbox and
calls `deliver`.  They are immutable and may be shared.  The kinds a pipe needs carry the pipe's
end, the kinds of the own tree an `Own`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mq.core.own import Own
    from mq.pipes.hwm import HighWaterMarks
    from mq.pipes.pipe import Pipe


@dataclass(frozen=True, slots=True)
class Command:
    """The base of all: something to be done to `destination` by the thread that owns it."""

    destination: Any

    def deliver(self) -> None:
        """Do it.  Called by the owner of the destination, and by nobody else."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Stop(Command):
    """To a socket: its context is terminating, fail all calls but close.  To the reaper: end it."""

    def deliver(self) -> None:
        """Tell the socket, or the reaper."""
        self.destination.process_stop()


@dataclass(frozen=True, slots=True)
class Adopt(Command):
    """To an owner: `child` is yours from now on (libzmq's own, and its reap)."""

    child: "Own"

    def deliver(self) -> None:
        """Hand the child over."""
        self.destination.process_adopt(self.child)


@dataclass(frozen=True, slots=True)
class TermReq(Command):
    """To an owner: `child` wishes to be terminated."""

    child: "Own"

    def deliver(self) -> None:
        """Pass the wish on."""
        self.destination.process_term_req(self.child)


@dataclass(frozen=True, slots=True)
class Term(Command):
    """To a child: terminate yourself and all below you, then acknowledge.  `linger` in ms."""

    linger: int

    def deliver(self) -> None:
        """Start the end."""
        self.destination.process_term(self.linger)


@dataclass(frozen=True, slots=True)
class TermAck(Command):
    """To an owner: a child has ended and will send nothing more."""

    def deliver(self) -> None:
        """Count it."""
        self.destination.process_term_ack()


@dataclass(frozen=True, slots=True)
class Bind(Command):
    """To a bound socket: here is your end of a connection.  Counted by sequence numbers."""

    pipe: "Pipe"

    def deliver(self) -> None:
        """Attach the pipe."""
        self.destination.process_bind(self.pipe)


@dataclass(frozen=True, slots=True)
class InprocConnected(Command):
    """To the connecting end of a pipe that waited for a bind: what its peer turned out to be."""

    hwms: "HighWaterMarks"
    routing_id: bytes

    def deliver(self) -> None:
        """Complete the connection."""
        self.destination.process_inproc_connected(self.hwms, self.routing_id)


@dataclass(frozen=True, slots=True)
class ActivateRead(Command):
    """To a reader's end that had run dry: there are messages again."""

    def deliver(self) -> None:
        """Wake the end."""
        self.destination.process_activate_read()


@dataclass(frozen=True, slots=True)
class ActivateWrite(Command):
    """To a writer's end: its peer has read so many messages in all."""

    msgs_read: int

    def deliver(self) -> None:
        """Give the credit."""
        self.destination.process_activate_write(self.msgs_read)


@dataclass(frozen=True, slots=True)
class PipeHwm(Command):
    """To a pipe's end: its peer's high-water marks have changed while connected."""

    hwms: "HighWaterMarks"

    def deliver(self) -> None:
        """Reckon anew."""
        self.destination.process_pipe_hwm(self.hwms)


@dataclass(frozen=True, slots=True)
class PipeTerm(Command):
    """To a pipe's end: its peer wants the connection to end."""

    def deliver(self) -> None:
        """Begin the handshake on this side."""
        self.destination.process_pipe_term()


@dataclass(frozen=True, slots=True)
class PipeTermAck(Command):
    """To a pipe's end: its peer has let go, and will touch neither direction again."""

    def deliver(self) -> None:
        """Finish the handshake on this side."""
        self.destination.process_pipe_term_ack()


@dataclass(frozen=True, slots=True)
class ReapDone(Command):
    """To a context: the reaper has seen the last socket end."""

    def deliver(self) -> None:
        """Do nothing: receiving the command is the information."""


@dataclass(frozen=True, slots=True)
class WakeUp(Command):
    """To a socket: makes its descriptor readable, so that a poller reads EVENTS again."""

    def deliver(self) -> None:
        """Do nothing: the signal that came with the command is its purpose."""
