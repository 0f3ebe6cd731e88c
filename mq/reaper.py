"""Reaper: the one thread of a context; it finishes closed sockets.

Who may call it: `start` the context; all else runs in the reaper's own thread.  A closed socket is
handed over by a `Reap`; its mailbox is read here until every handshake is done.
"""

from __future__ import annotations

import select
from threading import Thread
from typing import TYPE_CHECKING

from mq.mailbox import Mailbox

if TYPE_CHECKING:
    from mq.command import Command
    from mq.ctx import Ctx
    from mq.sockets.base import SocketBase


class Reaper:
    """Polls its own mailbox and those of the sockets it finishes."""

    def __init__(self, ctx: Ctx) -> None:
        self._ctx = ctx
        self.mailbox: Mailbox[Command] = Mailbox()
        self._poll = select.poll()
        self._sockets: dict[int, SocketBase] = {}
        self._stopped = False
        # A daemon: a program may end without terminating its contexts.
        self._thread = Thread(target=self._run, name="mq-reaper", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._poll.register(self.mailbox.fileno(), select.POLLIN)
        self._thread.start()

    def _run(self) -> None:
        own = self.mailbox.fileno()
        while not self._stopped:
            for fd, _ in self._poll.poll():
                if fd == own:
                    self._process_commands()
                elif fd in self._sockets:
                    self._finish(self._sockets[fd])
        self.mailbox.close()
        self._ctx.finish()

    def _process_commands(self) -> None:
        while (command := self.mailbox.recv(0)) is not None:
            command.execute()

    def process_reap(self, socket: SocketBase) -> None:
        """See `Reap`."""
        fd = socket.mailbox.fileno()
        self._sockets[fd] = socket
        self._poll.register(fd, select.POLLIN)
        socket.terminate()
        self._finish(socket)

    def _finish(self, socket: SocketBase) -> None:
        socket.process_all_commands()
        if not socket.destroyed:
            return
        fd = socket.mailbox.fileno()
        self._poll.unregister(fd)
        del self._sockets[fd]
        # First the slot, then the mailbox: a context that terminates tells every socket it knows.
        self._ctx.destroy_socket(socket)
        socket.mailbox.close()

    def process_shut_down(self) -> None:
        """See `ShutDown`."""
        self._ctx.shut_down()

    def process_stop(self) -> None:
        """See `StopReaper`."""
        self._stopped = True
