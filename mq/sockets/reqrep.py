"""REQ and REP: requests and replies in lock-step.  Owned by the socket's thread."""

from typing import ClassVar

from mq.constants import Errno, SocketOption, SocketType
from mq.core.context_core import ContextCore
from mq.errors import ZMQError
from mq.pipes.load_balancer import OK, Sent
from mq.pipes.message import ENVELOPE_END, MessagePart, Part, data_of, more_of
from mq.pipes.pipe import Pipe
from mq.sockets.router_dealer import Dealer, Router

_SKIP = -1  # `_envelope_position` in a message that is not the reply


class Req(Dealer):
    """Sends a request, then receives its reply.

    REQ_RELAXED allows another request before the reply, REQ_CORRELATE marks each with an id that
    its reply must carry.
    """

    socket_type: ClassVar[SocketType] = SocketType.REQ

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self._awaiting = False  # a reply
        self._mid_message = False  # a request: its envelope has been sent
        self._request_id = 0
        self._reply_pipe: Pipe | None = None  # of the request; None: it has gone
        self._envelope: list[bytes] = [b""]  # what the reply must begin with
        self._envelope_position = _SKIP  # parts of the envelope matched so far
        self._prefetched: Part | None = None

    def xsend(self, part: Part) -> Sent:
        """Send a part of a request; EFSM while a reply is awaited."""
        if self._awaiting:
            if not self.options[SocketOption.REQ_RELAXED]:
                raise ZMQError(Errno.EFSM)
            self._awaiting = False
        if not self._mid_message:
            sent = self._send_envelope()
            if sent is not OK:
                return sent
            self._mid_message = True
            self._drop_stale_replies()
        sent = super().xsend(part)
        self._mid_message = more_of(part)
        if sent is OK and not self._mid_message:
            self._awaiting = True
            self._envelope_position = _SKIP
        return sent

    def _send_envelope(self) -> Sent:
        envelope = [b""]
        if self.options[SocketOption.REQ_CORRELATE]:
            next_id = (self._request_id + 1) & 0xFFFFFFFF
            envelope = [next_id.to_bytes(4, "little"), b""]
            sent = super().xsend(MessagePart(envelope[0], True))
            if sent is not OK:
                return sent
            self._request_id = next_id
        sent = super().xsend(ENVELOPE_END)
        if sent is OK:
            self._reply_pipe = self._load_balancer.last_pipe
            self._envelope = envelope
        return sent

    def _drop_stale_replies(self) -> None:
        # A late reply to an earlier request must not be taken for the reply to this one.
        self._prefetched = None
        while super().xrecv() is not None:
            pass

    def xrecv(self) -> Part | None:
        """Receive a part of the reply; EFSM if no request was sent."""
        if not self._awaiting:
            raise ZMQError(Errno.EFSM)
        part = self._prefetched
        self._prefetched = None
        if part is None:
            part = self._fetch()
        if part is not None and not more_of(part):
            self._awaiting = False
        return part

    def _fetch(self) -> Part | None:
        # Skips every message that is not the reply.
        while (part := super().xrecv()) is not None:
            if self._fair_queue.at_message_start:
                reply_pipe = self._reply_pipe
                expected = (
                    reply_pipe is None
                    or reply_pipe is self._fair_queue.last_pipe
                    or not reply_pipe.readable
                )
                self._envelope_position = 0 if expected else _SKIP
            if self._envelope_position == len(self._envelope):
                return part
            if self._envelope_position != _SKIP:
                fits = more_of(part) and data_of(part) == self._envelope[self._envelope_position]
                self._envelope_position = self._envelope_position + 1 if fits else _SKIP
        return None

    def xhas_in(self) -> bool:
        """Whether the reply is here; other messages do not count."""
        if self._awaiting and self._prefetched is None:
            self._prefetched = self._fetch()
        return self._awaiting and self._prefetched is not None

    def xhas_out(self) -> bool:
        """Whether a request may be sent."""
        if self._awaiting and not self.options[SocketOption.REQ_RELAXED]:
            return False
        return super().xhas_out()

    def xterminated(self, pipe: Pipe) -> None:
        """Forget a peer; if it owed the reply, any other peer may give it."""
        if pipe is self._reply_pipe:
            self._reply_pipe = None
        super().xterminated(pipe)


class Rep(Router):
    """Receives a request, then sends the reply to the peer it came from."""

    socket_type: ClassVar[SocketType] = SocketType.REP

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self._envelope: list[Part] = []  # of the request: an id, then all up to the empty part
        self._envelope_complete = False  # the envelope is complete, the next part is the request's
        self._replying = False
        self._reply_started = False  # the envelope of the reply has been sent

    def xrecv(self) -> Part | None:
        """Receive a part of a request; EFSM while a reply is due."""
        if self._replying:
            raise ZMQError(Errno.EFSM)
        while self._read_envelope():
            part = self._fair_queue.recv()
            if part is None or self._fair_queue.at_message_start:  # its sender went in mid-message
                self._envelope_complete = False
                if part is not None:
                    self._add_to_envelope(part)
                continue
            if not more_of(part):
                self._replying = True
                self._envelope_complete = False
            return part
        return None

    def _read_envelope(self) -> bool:
        # Reads envelopes until one is complete.  A message without the empty part is dropped.
        while not self._envelope_complete:
            part = self._fair_queue.recv()
            if part is None:
                return False
            self._add_to_envelope(part)
        return True

    def _add_to_envelope(self, part: Part) -> None:
        if self._fair_queue.at_message_start:
            self._envelope = [self._routing_id_part()]
        if not self._envelope:
            return  # the rest of a malformed message
        self._envelope.append(part)
        more = more_of(part)
        self._envelope_complete = more and not data_of(part)
        if not more:
            self._envelope = []

    def xhas_in(self) -> bool:
        """Whether a request is here."""
        return not self._replying and self._read_envelope()

    def xsend(self, part: Part) -> Sent:
        """Send a part of the reply; EFSM if no request was received."""
        if not self._replying:
            raise ZMQError(Errno.EFSM)
        if not self._reply_started:
            for header in self._envelope:
                super().xsend(header)
            self._reply_started = True
        sent = super().xsend(part)
        if not more_of(part):
            self._replying = self._reply_started = False
        return sent

    def _is_mandatory(self) -> bool:
        return False  # a reply to a peer that has gone is always dropped

    def xhas_out(self) -> bool:
        """Whether a reply is due."""
        return self._replying
