"""Commands: what one thread asks of an object that lives in another.

Who may make one: everybody.  A command is posted to the mailbox of its destination's thread, which
calls `execute`; nothing here touches an object of another thread before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mq.own import Own
    from mq.pipe import Pipe
    from mq.reaper import Reaper
    from mq.sockets.base import SocketBase


class Command:
    """What is sent through a mailbox.  Immutable, so that one may be sent again and again."""

    __slots__ = ()

    def execute(self) -> None:
        """Do what is asked; the thread that received the command calls this."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ActivateRead(Command):
    """To a reader that slept: there is something in your pipe again."""

    pipe: Pipe

    def execute(self) -> None:
        """See `Command`."""
        self.pipe.process_activate_read()


@dataclass(frozen=True, slots=True)
class ActivateWrite(Command):
    """To a writer: so many of your messages have been read."""

    pipe: Pipe
    messages_read: int

    def execute(self) -> None:
        """See `Command`."""
        self.pipe.process_activate_write(self.messages_read)


@dataclass(frozen=True, slots=True)
class PipeTerm(Command):
    """To a pipe's other end: let us end this pipe."""

    pipe: Pipe

    def execute(self) -> None:
        """See `Command`."""
        self.pipe.process_pipe_term()


@dataclass(frozen=True, slots=True)
class PipeTermAck(Command):
    """To a pipe's other end: I shall touch the pipe no more."""

    pipe: Pipe

    def execute(self) -> None:
        """See `Command`."""
        self.pipe.process_pipe_term_ack()


@dataclass(frozen=True, slots=True)
class PipeHwm(Command):
    """To a pipe's other end: these are my high-water marks now (messages; 0 is no limit)."""

    pipe: Pipe
    send_hwm: int
    receive_hwm: int

    def execute(self) -> None:
        """See `Command`."""
        self.pipe.process_pipe_hwm(self.send_hwm, self.receive_hwm)


@dataclass(frozen=True, slots=True)
class Stop(Command):
    """To a socket: the context terminates; fail every call but close."""

    socket: SocketBase

    def execute(self) -> None:
        """See `Command`."""
        self.socket.process_stop()


@dataclass(frozen=True, slots=True)
class Bind(Command):
    """To a bound socket, whose sequence number was raised: a peer connected by this pipe."""

    socket: SocketBase
    pipe: Pipe

    def execute(self) -> None:
        """See `Command`."""
        self.socket.process_bind(self.pipe)
        self.socket.process_seqnum()


@dataclass(frozen=True, slots=True)
class LaunchedChild(Command):
    """To an owner, whose sequence number was raised: this object is yours."""

    owner: Own
    child: Own

    def execute(self) -> None:
        """See `Command`."""
        self.owner.process_own(self.child)
        self.owner.process_seqnum()


@dataclass(frozen=True, slots=True)
class TermRequest(Command):
    """To an owner: your child asks to be terminated."""

    owner: Own
    child: Own

    def execute(self) -> None:
        """See `Command`."""
        self.owner.process_term_request(self.child)


@dataclass(frozen=True, slots=True)
class Term(Command):
    """To a child: terminate."""

    child: Own
    linger_ms: int

    def execute(self) -> None:
        """See `Command`."""
        self.child.process_term(self.linger_ms)


@dataclass(frozen=True, slots=True)
class TermAck(Command):
    """To an owner: one of your children is gone."""

    owner: Own

    def execute(self) -> None:
        """See `Command`."""
        self.owner.process_term_ack()


@dataclass(frozen=True, slots=True)
class Reap(Command):
    """To the reaper: this closed socket is yours to finish."""

    reaper: Reaper
    socket: SocketBase

    def execute(self) -> None:
        """See `Command`."""
        self.reaper.process_reap(self.socket)


@dataclass(frozen=True, slots=True)
class ShutDown(Command):
    """To the reaper, from a finalizer that may take no lock: shut the context down."""

    reaper: Reaper

    def execute(self) -> None:
        """See `Command`."""
        self.reaper.process_shut_down()


@dataclass(frozen=True, slots=True)
class StopReaper(Command):
    """To the reaper: no socket is left, and none will come."""

    reaper: Reaper

    def execute(self) -> None:
        """See `Command`."""
        self.reaper.process_stop()
