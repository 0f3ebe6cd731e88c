"""REQ and REP: question and answer in turn.  Who may call it: see `mq.sockets.base`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mq.constants import SocketOption as Opt
from mq.constants import SocketType
from mq.errors import EFSM, ZMQError
from mq.message import MORE, Part, payload_bytes
from mq.sockets.router_dealer import Dealer, Router

if TYPE_CHECKING:
    from mq.ctx import Ctx
    from mq.pipe import Pipe
    from mq.reaper import Reaper

_BOTTOM: Part = (b"", MORE)


class Req(Dealer):
    """Sends a request, then receives its reply; anything else is EFSM.

    With REQ_RELAXED a new request may replace one unanswered; with REQ_CORRELATE a number in front
    of each keeps late replies apart.
    """

    kind = SocketType.REQ
    conflatable = False

    def __init__(self, ctx: Ctx, reaper: Reaper) -> None:
        super().__init__(ctx, reaper)
        self._receiving_reply = False
        self._message_begins = True
        self._reply_pipe: Pipe | None = None  # None once it is gone: any pipe may answer
        self._request_id = id(self) & 0xFFFFFFFF

    def _relaxed(self) -> bool:
        return bool(self.options.number(Opt.REQ_RELAXED))

    def _correlated(self) -> bool:
        return bool(self.options.number(Opt.REQ_CORRELATE))

    def xsend(self, part: Part) -> bool:
        """See `SocketBase`."""
        if self._receiving_reply:
            if not self._relaxed():
                raise ZMQError(EFSM)
            self._abandon_request()
        if self._message_begins and not self._begin_request():
            return False
        if not super().xsend(part):
            return False
        if not part[1] & MORE:
            self._receiving_reply = True
            self._message_begins = True
        return True

    def _abandon_request(self) -> None:
        pipe, self._reply_pipe = self._reply_pipe, None
        if pipe is not None:
            pipe.terminate(False)
        self._receiving_reply = False
        self._message_begins = True

    def _begin_request(self) -> bool:
        self._reply_pipe = None
        if self._correlated():
            following = (self._request_id + 1) & 0xFFFFFFFF
            if not super().xsend((following.to_bytes(4, "little"), MORE)):
                return False
            self._request_id = following
        if not super().xsend(_BOTTOM):
            return False
        self._reply_pipe = self._lb.last
        self._message_begins = False
        # What is here now answers an earlier request, if anything.
        while super().xrecv() is not None:
            pass
        return True

    def xrecv(self) -> Part | None:
        """See `SocketBase`."""
        if not self._receiving_reply:
            raise ZMQError(EFSM)
        while self._message_begins:
            found = self._find_reply()
            if found is None:
                return None
            self._message_begins = not found
        part = self._recv_from_reply_pipe()
        if part is not None and not part[1] & MORE:
            self._receiving_reply = False
            self._message_begins = True
        return part

    def _find_reply(self) -> bool | None:
        """Whether the next message is the reply; None when there is no message."""
        wanted = [b""]
        if self._correlated():
            wanted.insert(0, self._request_id.to_bytes(4, "little"))
        for expected in wanted:
            part = self._recv_from_reply_pipe()
            if part is None:
                return None
            if not part[1] & MORE or payload_bytes(part[0]) != expected:
                self._skip_rest(part)
                return False
        return True

    def _skip_rest(self, part: Part | None) -> None:
        while part is not None and part[1] & MORE:
            part = super().xrecv()

    def _recv_from_reply_pipe(self) -> Part | None:
        while True:
            part = super().xrecv()
            if part is None or self._reply_pipe is None or self._fq.last is self._reply_pipe:
                return part

    def xhas_in(self) -> bool:
        """See `SocketBase`."""
        return self._receiving_reply and super().xhas_in()

    def xhas_out(self) -> bool:
        """See `SocketBase`."""
        if self._receiving_reply and not self._relaxed():
            return False
        return super().xhas_out()

    def xpipe_terminated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        if pipe is self._reply_pipe:
            self._reply_pipe = None
        super().xpipe_terminated(pipe)


class Rep(Router):
    """Receives a request, then sends its reply; anything else is EFSM."""

    kind = SocketType.REP

    def __init__(self, ctx: Ctx, reaper: Reaper) -> None:
        super().__init__(ctx, reaper)
        self._sending_reply = False
        self._request_begins = True

    def xsend(self, part: Part) -> bool:
        """See `SocketBase`."""
        if not self._sending_reply:
            raise ZMQError(EFSM)
        if not super().xsend(part):
            return False
        if not part[1] & MORE:
            self._sending_reply = False
        return True

    def xrecv(self) -> Part | None:
        """See `SocketBase`."""
        if self._sending_reply:
            raise ZMQError(EFSM)
        while self._request_begins:
            kept = self._keep_envelope()
            if kept is None:
                return None
            self._request_begins = not kept
        part = super().xrecv()
        if part is not None and not part[1] & MORE:
            self._sending_reply = True
            self._request_begins = True
        return part

    def _keep_envelope(self) -> bool | None:
        """Lay the envelope aside for the reply; False if there was none, None without a message."""
        while True:
            part = super().xrecv()
            if part is None:
                return None
            if not part[1] & MORE:
                self.drop_message()
                return False
            super().xsend(part)
            if not payload_bytes(part[0]):
                return True

    def xhas_in(self) -> bool:
        """See `SocketBase`."""
        return not self._sending_reply and super().xhas_in()

    def xhas_out(self) -> bool:
        """See `SocketBase`."""
        return self._sending_reply and super().xhas_out()
