"""The reaper: the thread in which closed sockets end, and the owner of these sockets.

It polls their mailboxes, and runs the handshakes with their peers. All but `start` and `join` runs
in the reaper's thread. The reaper has no strong reference to handles: they can be garbage.
"""

import select
from threading import Lock, Thread, current_thread
from typing import Protocol

from _purgatory_cpython.threads import InterruptibleThread
from mq.core.own import AbstractSocket, Own
from mq.pipes.commands import Term
from mq.pipes.pipe import Pipe
from mq.queues.mailbox import Mailbox


class ReaperContext(Protocol):
    """The part of a context for its reaper."""

    @property
    def has_sockets(self) -> bool:
        """See `Termination`."""

    def stop_sockets(self) -> None:
        """See `Termination`."""

    def report_reaper_done(self) -> None:
        """See `Termination`."""


class Reaper(Own):
    """Owns a context's closed sockets, and pipes whose bind never came.

    It ends after its `Term`, when the context has no socket left.
    """

    def __init__(self, context: ReaperContext, name: str) -> None:
        super().__init__(Mailbox())
        self._context = context
        self._polled: dict[int, AbstractSocket] = {}  # by the mailbox's descriptor
        self._poll = select.poll()
        self._poll.register(self.mailbox.fileno(), select.POLLIN)
        self._name = name
        self._is_started = False
        self._running = Lock()  # held by the one thread that is the reaper, never released
        self._thread: Thread | None = None  # that thread

    def start(self) -> None:
        """Start the thread. After an interrupt, a second thread may start, and ends."""
        if not self._is_started:
            # A program may end without terminating its contexts.
            InterruptibleThread(target=self._run, name=self._name, daemon=True).start()
            self._is_started = True

    def join(self) -> None:
        """Wait for the end of the thread."""
        assert self._thread is not None
        self._thread.join()

    def _run(self) -> None:
        if not self._running.acquire(blocking=False):
            return
        self._thread = current_thread()
        while not self.destroyed:
            for fd, _ in self._poll.poll():
                socket = self._polled.get(fd)
                if socket is None:
                    self._process_commands()
                else:
                    socket.process_in_reaper()
        self.mailbox.close()

    def _process_commands(self) -> None:
        while (command := self.mailbox.recv(0)) is not None:
            command.deliver()

    def process_stop(self) -> None:
        """End the context: its last handle was garbage."""
        self._context.stop_sockets()

    def process_term(self) -> None:
        """Begin to end, once: an interrupted `term` may send `Term` twice."""
        if not self.terminating:
            super().process_term()

    def process_adopt(self, socket: AbstractSocket) -> None:
        """Begin to end a closed socket."""
        if socket.owner is self:
            return  # handed over twice: closed while another thread waited in the socket
        fd = socket.mailbox.fileno()
        self._polled[fd] = socket
        self._poll.register(fd, select.POLLIN)
        socket.owner = self
        self.register_term_acks(1)
        socket.mailbox.send(Term(socket))
        # Earlier commands may have consumed the signal.
        socket.process_in_reaper()

    def check_term_acks(self) -> None:
        """Be destroyed once no socket is left."""
        if not self._context.has_sockets:
            super().check_term_acks()

    def forget(self, socket: AbstractSocket) -> None:
        """Stop polling the mailbox of a socket that ends."""
        fd = socket.mailbox.fileno()
        if self._polled.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def process_bind(self, pipe: Pipe) -> None:
        """End the far end of a connection that will never be bound."""
        if not pipe.attached:
            pipe.sink = self
            pipe.attached = True
            self.register_term_acks(1)
            pipe.terminate(False)
        self.process_announced(pipe)

    def read_activated(self, pipe: Pipe) -> None:
        """Do nothing: the pipe is not read."""

    def write_activated(self, pipe: Pipe) -> None:
        """Do nothing: the pipe is not written."""

    def pipe_connected(self, pipe: Pipe) -> None:
        """Do nothing: the far end does not wait."""

    def pipe_terminated(self, pipe: Pipe) -> None:  # noqa: ARG002 - PipeEventSink's signature
        """Count the end of a pipe."""
        self.process_term_ack()

    def process_destroy(self) -> None:
        """Report that the last socket has ended."""
        self._context.report_reaper_done()
