"""Termination: how a context ends, from stopping its sockets to the last one's end.

Under one hold of the slot lock, no further socket is allowed and every socket is sent `Stop`, so
that a socket created or closed meanwhile is either among them or refused.  Then the reaper is told
to terminate, and `term` waits for its `ReapDone`, which comes when the last socket has been closed
and has ended.

Lock order: the term lock, then the slot lock, then those of `mq.core.endpoints`.
"""

from contextlib import suppress

from _purgatory_cpython.locks import new_lock
from mq.core.endpoints import Endpoints
from mq.core.reaper import Reaper
from mq.core.socket_slots import SocketSlots
from mq.errors import MailboxClosed
from mq.pipes.commands import Command, ReapDone, Stop, Term
from mq.queues.mailbox import Mailbox


class Termination:
    """The end of one context, and its reaper.  Methods may be called from any thread."""

    def __init__(self, slots: SocketSlots, endpoints: Endpoints) -> None:
        self.begun: bool = False  # no further socket is allowed; written under the slot lock
        self.finished: bool = False
        self._slots = slots
        self._endpoints = endpoints
        self._term_lock = new_lock()  # held by the thread that waits in `term`
        self._reaper: Reaper | None = None  # created with the first socket, under the slot lock
        self._reaper_done: Mailbox[Command] | None = None  # libzmq's slot 0
        self._stopped = False  # all sockets and the reaper have been told

    # -- the reaper ----------------------------------------------------------------------------

    def start_reaper(self, name: str) -> None:
        """Start the reaper's thread, unless it runs.  Called under the slot lock.

        Not before the first socket, and never from a finalizer, which must not start threads.
        """
        if self._reaper is None:
            self._reaper_done = Mailbox()
            self._reaper = Reaper(self, name)
        self._reaper.start()

    @property
    def reaper(self) -> Reaper | None:
        """The root of the own tree; None before the first socket."""
        return self._reaper

    @property
    def has_sockets(self) -> bool:
        """Whether a socket has not ended yet."""
        return len(self._slots) > 0

    def report_reaper_done(self) -> None:
        """Let `term` return.  Called in the reaper's thread, once the last socket has ended."""
        assert self._reaper_done is not None
        self._reaper_done.send(ReapDone(self))

    # -- the end -------------------------------------------------------------------------------

    def term(self) -> None:
        """Fail all sockets, then wait until each has been closed and has ended.

        May be called again after an interrupt, and from several threads.
        """
        self.stop_sockets()
        with self._term_lock:
            if not self.finished and self._reaper is not None:
                self._wait_for_reaper(self._reaper)
            self.finished = True

    def _wait_for_reaper(self, reaper: Reaper) -> None:
        assert self._reaper_done is not None
        reaper.start()  # an interrupt may have come before it was started
        self._reaper_done.head()  # stays there for the next call, should this one be interrupted
        reaper.join()
        self._reaper_done.close()

    def request_term(self) -> None:
        """Have the reaper terminate the context.  Takes no lock and does not wait.

        For finalizers: they may run in any thread, the reaper's too, and inside any of our locks.
        """
        if self._reaper is not None:
            _send_unless_closed(self._reaper, Stop(self._reaper))

    def stop_sockets(self) -> None:
        """Fail all sockets, and tell the reaper to end when they have.  Idempotent."""
        with self._slots.lock:
            if self._stopped:
                return
            self.begun = True
            for socket in self._slots:
                socket.mailbox.send(Stop(socket))
            if self._reaper is not None:
                self._endpoints.cancel_all(self._reaper)
                _send_unless_closed(self._reaper, Term(self._reaper, 0))
            self._stopped = True  # last: after an interrupt above, everything is done again

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent may hold."""
        self._term_lock = new_lock()


def _send_unless_closed(reaper: Reaper, command: Command) -> None:
    with suppress(MailboxClosed):  # the reaper has ended meanwhile
        reaper.mailbox.send(command)
