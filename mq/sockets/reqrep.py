"""REQ and REP: requests and replies in lock-step. For the socket's thread."""

import os
from typing import ClassVar

from mq.constants import Errno, SocketOption, SocketType
from mq.core.context_core import ContextCore
from mq.errors import ZMQError
from mq.pipes.message import ENVELOPE_END, MessagePart, Part, data_of, more_of
from mq.pipes.pipe import Pipe
from mq.pipes.round_robin import OK, Sent
from mq.sockets.router_dealer import Dealer, Router

_SKIP = -1  # `_envelope_position` in a message that is not the reply


class Req(Dealer):
    """Sends a request, then receives its reply.

    With REQ_RELAXED, another request may precede the reply; with REQ_CORRELATE, a reply carries its
    request's id.
    """

    socket_type: ClassVar[SocketType] = SocketType.REQ

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self._awaiting = False  # a reply
        self._mid_message = False  # the envelope of a request has been sent
        # At random: a late reply to an earlier socket is not ours.
        self._request_id = int.from_bytes(os.urandom(4), "little")
        self._reply_pipe: Pipe | None = None  # of the request; None: it has gone
        self._envelope: list[bytes] = [b""]  # the beginning of the reply
        self._envelope_position = _SKIP  # parts of the envelope matched so far
        self._prefetched: Part | None = None  # a part taken and not returned yet
        self._is_reply = False  # whether that is a part of the reply

    def xsend(self, part: Part) -> Sent:
        """Send a part of a request; EFSM while a reply is awaited."""
        self._note_request_end()
        if self._awaiting:
            if not self.options[SocketOption.REQ_RELAXED]:
                raise ZMQError(Errno.EFSM)
            self._awaiting = False
        if not self._mid_message:
            sent = self._send_envelope()
            if sent is not OK:
                return sent
            self._drop_stale_replies()
            self._mid_message = True
        sent = super().xsend(part)
        if sent is OK:
            self._note_request_end()
        else:
            self._mid_message = more_of(part)
        return sent

    def _note_request_end(self) -> None:
        # After the last part, also if interrupted right after.
        if self._mid_message and not self._load_balancer.mid_message:
            self._mid_message = False
            self._awaiting = True
            self._envelope_position = _SKIP

    def xrollback(self) -> None:
        self._note_request_end()
        super().xrollback()
        self._mid_message = False

    def _send_envelope(self) -> Sent:
        self._load_balancer.rollback()  # of an interrupted envelope
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
        # Not to be taken for the reply to this request.
        self._prefetched = None
        while super().xrecv() is not None:
            pass

    def xrecv(self) -> Part | None:
        """Receive a part of the reply; EFSM if no request was sent."""
        self._note_request_end()
        if not self._awaiting:
            raise ZMQError(Errno.EFSM)
        if not self._fetch():
            return None
        part = self._prefetched
        assert part is not None
        more = more_of(part)
        # The part must not be lost: no call from here on.
        self._prefetched = None
        self._awaiting = more
        return part

    def _fetch(self) -> bool:
        # Skip parts until `_prefetched` holds a part of the reply.
        while self._prefetched is None or not self._is_reply:
            if self._prefetched is None:
                self._prefetched = super().xrecv()
                self._is_reply = False
            if self._prefetched is None:
                return False
            self._check_prefetched(self._prefetched)
        return True

    def _check_prefetched(self, part: Part) -> None:
        position = self._envelope_position
        if self._fair_queue.at_message_start:
            position = 0 if self._is_reply_expected() else _SKIP
        is_reply = position == len(self._envelope)
        if not is_reply and position != _SKIP:
            fits = more_of(part) and data_of(part) == self._envelope[position]
            position = position + 1 if fits else _SKIP
        # Without calls: after an interrupt before this, the part is checked again.
        self._envelope_position = position
        self._is_reply = is_reply
        if not is_reply:
            self._prefetched = None

    def _is_reply_expected(self) -> bool:
        # From the pipe of the last part.
        pipe = self._reply_pipe
        return pipe is None or pipe is self._fair_queue.last_pipe or not pipe.readable

    def xhas_in(self) -> bool:
        """Whether the reply is here."""
        self._note_request_end()
        return self._awaiting and self._fetch()

    def xhas_out(self) -> bool:
        """Whether a request may be sent."""
        self._note_request_end()
        if self._awaiting and not self.options[SocketOption.REQ_RELAXED]:
            return False
        return super().xhas_out()

    def xforget(self, pipe: Pipe) -> None:
        if pipe is self._fair_queue.last_pipe:
            self._prefetched = None
            self._envelope_position = _SKIP

    def xterminated(self, pipe: Pipe) -> None:
        """Forget a peer; another peer may answer in its place."""
        if pipe is self._reply_pipe:
            self._reply_pipe = None
        super().xterminated(pipe)


class Rep(Router):
    """Receives a request, then sends the reply to the peer it came from."""

    socket_type: ClassVar[SocketType] = SocketType.REP

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self._envelope: list[Part] = []  # of the request: an id, then all up to the empty part
        self._envelope_complete = False  # the next part is the request's
        self._replying = False
        self._reply_started = False  # its envelope has been sent

    def xrecv(self) -> Part | None:
        """Receive a part of a request; EFSM while a reply is due."""
        if self._is_reply_due():
            raise ZMQError(Errno.EFSM)
        while self._read_envelope():
            if not self._prefetch() or self._prefetched_id is not None:
                self._envelope_complete = False  # its sender went in mid-message
                continue
            part = self._prefetched
            assert part is not None
            more = more_of(part)
            self._end_replaced(part)
            # The part must not be lost: no call from here on.
            self._prefetched = None
            self._envelope_complete = more
            self._replying = not more
            return part
        return None

    def _read_envelope(self) -> bool:
        # A message without the empty part is dropped.
        while not self._envelope_complete:
            if not self._prefetch():
                return False
            assert self._prefetched is not None
            self._add_to_envelope(self._prefetched)
        return True

    def _add_to_envelope(self, part: Part) -> None:
        envelope = self._envelope
        if self._prefetched_id is not None:
            envelope = [MessagePart(self._prefetched_id, True)]
        # Empty: the rest of a malformed message.
        envelope = [*envelope, part] if envelope and more_of(part) else []
        complete = len(envelope) > 0 and not data_of(part)
        # Without calls: after an interrupt before this, the part is added again.
        self._envelope = envelope
        self._envelope_complete = complete
        self._prefetched = self._prefetched_id = None

    def xhas_in(self) -> bool:
        return not self._is_reply_due() and self._read_envelope()

    def xsend(self, part: Part) -> Sent:
        """Send a part of the reply; EFSM if no request was received."""
        if not self._is_reply_due():
            raise ZMQError(Errno.EFSM)
        if not self._reply_started:
            super().xrollback()  # of an interrupted envelope
            for header in self._envelope:
                super().xsend(header)
            self._reply_started = True
        sent = super().xsend(part)
        self._is_reply_due()
        return sent

    def xrollback(self) -> None:
        self._is_reply_due()
        super().xrollback()
        self._reply_started = False

    def _is_reply_due(self) -> bool:
        # Not after the reply's last part, also if interrupted right after.
        if self._reply_started and not self._mid_message:
            self._replying = self._reply_started = False
        return self._replying

    def _is_mandatory(self) -> bool:
        return False  # a reply to a peer that has gone is always dropped

    def xhas_out(self) -> bool:
        """Whether a reply is due."""
        return self._is_reply_due()
