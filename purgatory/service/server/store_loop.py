"""The store thread's work. Decide, commit, tell; a turn of all that has gathered each time.

A turn takes the requests that have come, lets expire what is due, commits all of it in one
transaction, and only then answers. While one turn is on its way to the disk the next requests
gather, so groups grow with the load. If the disk refuses, the turn is undone in memory and all its
requests are told so; if the disk cannot be relied on any more, the keeper ends with `failure`.

The loop is timingwheel's `Reaper`: it waits here for commands, no longer than until something is
due, and then has a turn done. `start` is for who starts that thread; the counters are for any.
"""

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable

from mq import Mailbox, MailboxClosed
from purgatory.errors import StoreError
from purgatory.service.errors import StoreFailed
from purgatory.service.server.clock import ServiceClock
from purgatory.service.server.commands import (
    ClientConnected,
    ClientDisconnected,
    ClientRequest,
    FetchOutcomes,
    JournalConfirmed,
    NetworkCommand,
    OutcomeFrame,
    StopStoreLoop,
    StoreLoopCommand,
    StoreLoopStopped,
    TransactionReplies,
)
from purgatory.service.server.journal_rows import operation_rows, outcome_rows, replay
from purgatory.service.server.journal_sink import JournalSink
from purgatory.service.server.request_handler import RequestHandler
from purgatory.service.server.state import ServerState
from purgatory.service.server.transaction import Transaction
from purgatory.service.store.store import DATABASE_ID, JournalPosition, Store

log = logging.getLogger(__name__)

# A turn takes no more frames, nor bytes of them, than that.
MAX_FRAMES_PER_TRANSACTION = 1024
MAX_BYTES_PER_TRANSACTION = 4 << 20
# After a failed commit nothing is expired for so long; who asks is tried at once.
RETRY_MS = 1000
# How often the small chores are looked at.
MAINTENANCE_MS = 60_000


class StoreLoop:
    """``send``: posts to the network. ``sink``: the journal, None for none."""

    def __init__(
        self,
        state: ServerState,
        store: Store,
        clock: ServiceClock,
        handler: RequestHandler,
        *,
        send: Callable[[NetworkCommand], None],
        retention_ms: int,
        sink: JournalSink | None = None,
    ) -> None:
        self.mailbox: Mailbox[StoreLoopCommand] = Mailbox()
        self.state = state
        self._store = store
        self._clock = clock
        self._handler = handler
        self._send = send
        self._sink = sink
        self._retention_ms = retention_ms
        self._commands: deque[StoreLoopCommand] = deque()
        self._outgoing: list[NetworkCommand] = []  # for the network, not told yet
        self._size = 0  # bytes of what was taken
        self._stopping = False
        self._retry_ms = 0  # nothing expires before
        self._maintenance_ms = clock.now_ms()  # when they are due
        self._metadata = clock.metadata()
        self.failure: Exception | None = None
        # Counted here, read by any thread.
        self.submitted = 0
        self.ended = {"completed": 0, "expired": 0, "cancelled": 0}
        self.commits = 0
        self.commit_seconds = 0.0
        self.commit_failures = 0

    def start(self) -> None:
        """Tell the journal what it has not written down yet. Raises what keeps us from starting."""
        if self._sink is not None:
            position = self._sink.start(str(self._store.metadata()[DATABASE_ID]), self._journaled)
            self.state.journaled(position)
            replay(self._store, self._sink, position)

    def now_ms(self) -> int:
        """The time of its clock; any thread."""
        return self._clock.now_ms()

    def _journaled(self, position: JournalPosition) -> None:
        with contextlib.suppress(MailboxClosed):  # the next start will ask
            self.mailbox.send(JournalConfirmed(position))

    def wait(self, timeout: float | None) -> None:
        """Sleep until commands come, for ``timeout`` seconds at most, and take them."""
        self.send_replies()
        mailbox = self.mailbox
        command = mailbox.recv(timeout)
        while command is not None:
            self._commands.append(command)
            if isinstance(command, ClientRequest):
                self._size += command.size
            if (
                len(self._commands) >= MAX_FRAMES_PER_TRANSACTION
                or self._size >= MAX_BYTES_PER_TRANSACTION
            ):
                break
            # What comes just now is found at the next wait.
            command = mailbox.recv(0) if mailbox.peek() else None

    def send_replies(self) -> None:
        """Tell the network what came of the turn.

        The last thing before a sleep: its thread then finds the interpreter free.
        """
        outgoing, self._outgoing = self._outgoing, []
        for command in outgoing:
            self._send(command)

    def wake(self) -> None:
        """Nobody needs to: all that could is a command."""

    def max_sleep(self) -> float | None:
        """Seconds until something is due."""
        wake_ms = self._maintenance_ms
        deletion_ms = self.state.next_deletion_ms()
        if deletion_ms is not None:
            wake_ms = min(wake_ms, max(deletion_ms, self._retry_ms))
        due_ms = self.state.next_due_ms()
        if due_ms is not None:
            wake_ms = min(wake_ms, max(due_ms, self._retry_ms))
        return self._clock.seconds_until(wake_ms)

    def advance_clock(self) -> bool:
        """Do a turn."""
        try:
            self._run_transaction()
        except Exception as error:  # noqa: BLE001  # memory and disk might disagree from here on
            self._fail(error)
        return True

    def _run_transaction(self) -> None:
        now_ms = self._clock.now_ms()
        transaction = self.state.begin(now_ms)
        if now_ms >= self._retry_ms:
            self.state.expire()
        others = self._handle_requests()
        self._maintain(now_ms)
        pushes = self._handler.pushes(transaction) if self._commit(transaction) else []
        self._outgoing.append(TransactionReplies(self._handler.replies(), pushes, self._size))
        self._size = 0
        self._handle_others(others)

    def _handle_requests(self) -> list[FetchOutcomes | JournalConfirmed | StopStoreLoop]:
        """Do what was asked; returns what is no request."""
        others: list[FetchOutcomes | JournalConfirmed | StopStoreLoop] = []
        commands, self._commands = self._commands, deque()
        for command in commands:
            if isinstance(command, (ClientRequest, ClientConnected)):
                self._handler.handle(command)
            elif isinstance(command, ClientDisconnected):
                client = self.state.client(command.client)
                client.connections -= 1
                self.state.drop_if_idle(client)
            else:
                others.append(command)
        return others

    def _handle_others(
        self, others: Iterable[FetchOutcomes | JournalConfirmed | StopStoreLoop]
    ) -> None:
        for command in others:
            if isinstance(command, FetchOutcomes):
                frame, last = self._handler.next_outcome_frame(command.client, command.after)
                self._outgoing.append(OutcomeFrame(command.route, frame, last))
            elif isinstance(command, JournalConfirmed):
                self.state.journaled(command.position)
            else:
                self._stopping = True

    def _maintain(self, now_ms: int) -> None:
        state = self.state
        deletion_ms = state.next_deletion_ms()
        if deletion_ms is not None and now_ms >= max(deletion_ms, self._retry_ms):
            state.delete_acknowledged()
        if now_ms >= self._maintenance_ms:
            self._maintenance_ms = now_ms + MAINTENANCE_MS
            state.expire_retained(now_ms - self._retention_ms)
            self._record_clock_drift()

    def _record_clock_drift(self) -> None:
        metadata = self._clock.metadata()
        if abs(metadata["drift_ms"] - self._metadata["drift_ms"]) >= RETRY_MS:
            log.warning("the wall clock is %d ms off the service's", metadata["drift_ms"])
            self._metadata = metadata
            try:
                self._store.set_metadata(metadata)
            except StoreError as error:
                log.warning("%s", error)  # again at the end

    def _commit(self, transaction: Transaction) -> bool:
        """Have a turn on disk, or undone."""
        self.state.prepare_commit()
        if not transaction.changes:
            return True
        start = time.perf_counter()
        try:
            self._store.commit(transaction.changes)
        except StoreError as error:
            self.commit_failures += 1
            self.state.roll_back()
            self._handler.reject_all(StoreFailed(str(error)))
            self._retry_ms = transaction.now_ms + RETRY_MS
            if error.fatal:
                self._fail(error)
            else:
                log.error("nothing was written: %s", error)  # noqa: TRY400  # words say all
            return False
        self.commit_seconds += time.perf_counter() - start
        self.commits += 1
        self._retry_ms = 0
        self._on_committed(transaction)
        return True

    def _on_committed(self, transaction: Transaction) -> None:
        self.submitted += len(transaction.submitted)
        for _, ended in transaction.ended:
            self.ended[ended.outcome] += 1
        if self._sink is not None and (transaction.submitted or transaction.ended):
            self._sink.write(operation_rows(transaction), outcome_rows(transaction))

    def _fail(self, error: Exception) -> None:
        log.critical("the server ends: %s", error, exc_info=error)
        self.failure = error
        self._stopping = True

    def finished(self) -> bool:
        """Whether it was stopped, or has failed."""
        return self._stopping

    def shut_down(self) -> None:
        """Close the database and the journal, and say that all is over."""
        try:
            if self.failure is None:
                self._store.set_metadata(self._clock.metadata())
                transaction = self.state.begin(self._clock.now_ms())
                self.state.delete_acknowledged(everything=True)
                self._store.commit(transaction.changes)
        except StoreError as error:
            log.warning("%s", error)  # nothing that was promised
        finally:
            self._store.close()
            if self._sink is not None:
                self._sink.close()
            self.mailbox.close()
            self._outgoing.append(StoreLoopStopped(self.failure))
            self.send_replies()
