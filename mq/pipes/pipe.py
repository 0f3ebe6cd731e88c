r"""Pipe: one end of a connection between two sockets, and the closing handshake.

Each end belongs to the thread of its socket (`mailbox`). The ends share two YPipes, one a
direction, and send each other commands. Until a bind, a `PendingConnection` keeps the commands of
the far end.

The end of a connection, from one side::

    ACTIVE --------- peer's pipe_term, messages left --> WAITING_FOR_DELIMITER (still readable)
      |  \---------- delimiter read first ------------> DELIMITER_RECEIVED
      |   \--------- peer's pipe_term, no delay ------> TERM_ACK_SENT
      terminate()
      |
    TERM_REQ_SENT1 - peer's pipe_term (both asked) ---> TERM_REQ_SENT2

An end sends its acknowledgement when it stops reading, and is dead when it receives the peer's. The
end that asked first also acknowledges the acknowledgement, so that both ends know.

After an interrupt a step is repeated. So it sends first and changes the state last, in a section
without calls. By its state a receiver ignores a repeated command.
"""

from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from _purgatory_cpython.mypyc_types import i64
from mq.errors import MailboxClosed
from mq.pipes.commands import (
    ActivateRead,
    ActivateWrite,
    Command,
    InprocConnected,
    PipeHwm,
    PipeTerm,
    PipeTermAck,
)
from mq.pipes.flow_control import FlowControl, HighWaterMarks
from mq.pipes.message import DELIMITER, MessagePart, Part
from mq.queues.ypipe import ConflatePipe, Empty, YPipe

if TYPE_CHECKING:
    from mq.pipes.pending_connection import PendingConnection
    from mq.queues.mailbox import Mailbox

Queue: TypeAlias = YPipe[Part] | ConflatePipe[Part]


class PipeState(Enum):
    """Where an end stands in the closing handshake."""

    ACTIVE = "active"
    DELIMITER_RECEIVED = "delimiter received"
    WAITING_FOR_DELIMITER = "waiting for delimiter"
    TERM_ACK_SENT = "term_ack sent"
    TERM_REQ_SENT1 = "term_req sent"
    TERM_REQ_SENT2 = "term_req sent by both"


_READABLE: Final = (PipeState.ACTIVE, PipeState.WAITING_FOR_DELIMITER)


class PipeEventSink(Protocol):
    """The owner of an end, told of events in the owner's thread."""

    def read_activated(self, pipe: "Pipe") -> None:
        """Note that an empty pipe can be read again."""

    def write_activated(self, pipe: "Pipe") -> None:
        """Note that a full pipe can be written again."""

    def pipe_connected(self, pipe: "Pipe") -> None:
        """Note the peer of a pending pipe, after a bind."""

    def pipe_terminated(self, pipe: "Pipe") -> None:
        """Forget a dead pipe."""


class Pipe(FlowControl):
    """One end. Methods are for the owner's thread."""

    __slots__ = (
        "_activate_read",
        "_flush_unfinished",
        "_in",
        "_in_active",
        "_out",
        "_out_active",
        "attached",
        "delay",
        "endpoint",
        "given_id",
        "mailbox",
        "more",
        "peer",
        "pending",
        "routing_id",
        "sink",
        "state",
    )

    def __init__(
        self, inbound: Queue, outbound: Queue, own: HighWaterMarks, peer_hwms: HighWaterMarks | None
    ) -> None:
        super().__init__(own, peer_hwms, unlimited=isinstance(outbound, ConflatePipe))
        self.mailbox: Mailbox[Command] | None = None  # set once, by the owner or under `pending`
        self.pending: PendingConnection | None = None  # set on the near end until a bind
        self.peer: Pipe = self  # replaced by pipepair
        self.sink: PipeEventSink | None = None  # None again once this end is dead
        self.attached: bool = False  # for good: the owner has taken this end in
        self.state: PipeState = PipeState.ACTIVE
        self.delay: bool = True  # read what is left before acknowledging the peer's end
        self.endpoint: str | None = None  # the near socket's address of the peer
        self.routing_id: bytes = b""  # of the socket at the far end
        self.given_id: bytes = b""  # the near socket's id for the peer: CONNECT_ROUTING_ID
        self._in = inbound
        self._out: Queue | None = outbound
        # As far as known; also False in a state that forbids the direction.
        self._in_active = True
        self._out_active = True
        self._flush_unfinished = False
        self.more: bool = False  # whether the part read last is followed by another

    def _link(self, peer: "Pipe") -> None:
        self.peer = peer
        self._activate_read = ActivateRead(peer)  # immutable: one suffices

    @property
    def msgs_written(self) -> int:
        """How many messages were written to this end."""
        return self._msgs_written

    # -- reading -----------------------------------------------------------------------------

    @property
    def readable(self) -> bool:
        """Whether messages of the peer may still come."""
        return self.state in _READABLE

    def read(self) -> Part | None:
        """Return the next part; None if none exists now."""
        if not self._in_active:
            return None
        part = self._in.probe_or_none()
        if part is None:
            self._in_active = False
            return None
        if part is DELIMITER:
            self._process_delimiter()
            return None
        msgs_read = self._msgs_read
        more = isinstance(part, MessagePart) and part.more
        if not more:
            msgs_read += 1
            if msgs_read >= self._report_at:
                self._send(ActivateWrite(self.peer, msgs_read))
                self._recompute_report_at(msgs_read)
        self._in.drop()
        # The part must not be lost: no call from here on.
        self.more = more
        self._msgs_read = msgs_read
        return part

    def check_read(self) -> bool:
        """Whether `read` would return a part. Notes a delimiter that is next in line."""
        if not self._in_active:
            return False
        part = self._in.probe_or_none()
        if part is None:
            self._in_active = False
        elif part is DELIMITER:
            self._process_delimiter()
        return self._in_active

    # -- writing -----------------------------------------------------------------------------

    def write(self, part: Part) -> bool:
        """Write a part; False if the pipe is full or ending. The peer sees it after `flush`."""
        out = self._out
        if not self._out_active or out is None:
            return False
        if self._msgs_written >= self._write_limit:
            self._out_active = False
            return False
        more = isinstance(part, MessagePart) and part.more
        out.write(part, more)
        if not more:
            self._msgs_written += 1
        return True

    def write_ignoring_hwm(self, part: Part) -> None:
        """Write a part regardless of the HWM, unless the connection is ending."""
        if self.state is PipeState.ACTIVE and self._out is not None:
            self._out.write(part)
            self._msgs_written += 1

    def check_write(self) -> bool:
        """Whether `write` would accept a part."""
        if self._out_active and self.is_full():
            self._out_active = False
        return self._out_active

    def flush(self) -> None:
        """Let the peer see all complete messages, and wake it if it sleeps."""
        out = self._out
        if out is None:
            return
        # An interrupted flush may owe a wake-up: send it now.
        owed = self._flush_unfinished
        self._flush_unfinished = True
        if not out.flush() or owed:
            self._send(self._activate_read)
        self._flush_unfinished = False

    def rollback(self) -> None:
        """Take back the parts of an incomplete message."""
        if self._out is None:
            return
        try:
            while True:
                self._out.unwrite()
        except Empty:
            pass

    # -- flow control ------------------------------------------------------------------------

    def set_hwms(self, own: HighWaterMarks) -> None:
        """Apply new marks; tell the peer these and how much was read."""
        if self._unlimited:
            return
        active = self.state is PipeState.ACTIVE  # no use for a peer that is ending
        if active and own != self._own_hwms:
            self._send(PipeHwm(self.peer, own))
            self._send(ActivateWrite(self.peer, self._msgs_read))
        self._own_hwms = own
        self._recompute_hwms()
        self._reactivate_write()

    def process_pipe_hwm(self, hwms: HighWaterMarks) -> None:
        """Note the peer's new marks; report the credit."""
        self._peer_hwms = hwms
        self._recompute_hwms()
        if self.state is PipeState.ACTIVE:
            self._send(ActivateWrite(self.peer, self._msgs_read))

    def _reactivate_write(self) -> None:
        if not self._out_active and self.state is PipeState.ACTIVE and not self.is_full():
            if self.sink is not None:
                self.sink.write_activated(self)
            self._out_active = True

    # -- commands from the peer --------------------------------------------------------------

    def process_activate_read(self) -> None:
        """Note that the peer has flushed."""
        if self.state in _READABLE:
            self._in_active = True
            if self.sink is not None:
                self.sink.read_activated(self)

    def process_activate_write(self, msgs_read: i64) -> None:
        """Note that the peer has read `msgs_read` messages in all."""
        self._peers_msgs_read = max(self._peers_msgs_read, msgs_read)
        self._recompute_write_limit()
        self._reactivate_write()

    def process_inproc_connected(self, hwms: HighWaterMarks, routing_id: bytes) -> None:
        """Note the far end's owner, after a bind."""
        self.routing_id = routing_id
        self._peer_hwms = hwms
        self._recompute_hwms()
        self._reactivate_write()
        if self.sink is not None:
            self.sink.pipe_connected(self)

    def process_pipe_term(self) -> None:
        """Begin to end the connection: the peer asks for it."""
        if self.state is PipeState.ACTIVE and self.delay:
            self.state = PipeState.WAITING_FOR_DELIMITER
            self._out_active = False
        elif self.state is PipeState.TERM_REQ_SENT1:
            self._send_pipe_term_ack()
            self.state = PipeState.TERM_REQ_SENT2
        elif self.state in (PipeState.ACTIVE, PipeState.DELIMITER_RECEIVED):
            self._ack_term()

    def process_pipe_term_ack(self) -> None:
        """End: the peer will touch neither direction again."""
        # Waiting for the delimiter: an interrupt came after our own acknowledgement.
        assert self.state is not PipeState.ACTIVE
        sink = self.sink
        if sink is None:
            return
        if self.state is PipeState.TERM_REQ_SENT1:
            self._send_pipe_term_ack()
        self._in_active = False
        self._in = ConflatePipe()  # drops unread messages
        sink.pipe_terminated(self)  # it may destroy the socket
        self.sink = None

    # -- the end -----------------------------------------------------------------------------

    def terminate(self, delay: bool) -> None:
        """Begin to end the connection; the sink is told when it has ended.

        With `delay`, the peer's messages stay readable. Repeatable, also with `delay=False`.
        """
        if self.state in (PipeState.ACTIVE, PipeState.DELIMITER_RECEIVED):
            self._send(PipeTerm(self.peer))
            self._write_delimiter()
            self.state = PipeState.TERM_REQ_SENT1
            self._in_active = False
        elif self.state is PipeState.WAITING_FOR_DELIMITER:
            if delay:
                self._write_delimiter()
            else:
                self._ack_term()

    def _write_delimiter(self) -> None:
        self._out_active = False
        if self._out is not None:
            self.rollback()
            self._out.write(DELIMITER)  # not subject to the HWM; a second one is never read
            self.flush()

    def _process_delimiter(self) -> None:
        # The delimiter stays: an inactive direction is not read.
        if self.state is PipeState.ACTIVE:
            self.state = PipeState.DELIMITER_RECEIVED
            self._in_active = self._out_active = False
        else:
            assert self.state is PipeState.WAITING_FOR_DELIMITER, self.state
            self._ack_term()

    def _ack_term(self) -> None:
        self.rollback()
        self._send_pipe_term_ack()
        self.state = PipeState.TERM_ACK_SENT
        self._in_active = self._out_active = False

    def _send_pipe_term_ack(self) -> None:
        self._out = None
        try:
            self._send(PipeTermAck(self.peer))
        except MailboxClosed:
            pass  # a repeated one: the peer has ended

    def _send(self, command: Command) -> None:
        mailbox = self.peer.mailbox
        if mailbox is not None:
            mailbox.send(command)
        else:
            assert self.pending is not None
            self.pending.send(self.peer, command)

    def send_inproc_connected(self, hwms: HighWaterMarks, routing_id: bytes) -> None:
        """Send the properties of this socket to the end that connected first."""
        self._send(InprocConnected(self.peer, hwms, routing_id))

    def set_own_hwms_before_bind(self, own: HighWaterMarks) -> None:
        """Set the marks of an end that waited for a bind."""
        self._own_hwms = own
        self._recompute_hwms()

    def __repr__(self) -> str:
        return f"<Pipe {self.state.value} read {self._msgs_read} wrote {self._msgs_written}>"


def pipepair(near: HighWaterMarks, far: HighWaterMarks | None, conflate: bool) -> tuple[Pipe, Pipe]:
    """Return two linked ends; `near`, `far`: their sockets' marks, None before a bind."""
    there: Queue = ConflatePipe(DELIMITER) if conflate else YPipe()
    back: Queue = ConflatePipe(DELIMITER) if conflate else YPipe()
    ends = Pipe(back, there, near, far), Pipe(there, back, far or HighWaterMarks(0, 0), near)
    ends[0]._link(ends[1])
    ends[1]._link(ends[0])
    return ends
