"""Keeper: the store thread's work. Decide, commit, tell; a turn of all that has gathered each time.

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
    Asked,
    Attach,
    Deliver,
    Detach,
    Journaled,
    KeeperCommand,
    More,
    NetworkCommand,
    Stop,
    Stopped,
    Told,
)
from purgatory.service.server.journal_rows import operation_rows, outcome_rows, replay
from purgatory.service.server.journal_sink import Sink
from purgatory.service.server.request_handler import Desk
from purgatory.service.server.state import Room
from purgatory.service.server.transaction import Turn
from purgatory.service.store.store import SOURCE, Position, Store

log = logging.getLogger(__name__)

# A turn takes no more frames, nor bytes of them, than that.
FRAMES_A_TURN = 1024
BYTES_A_TURN = 4 << 20
# After a failed commit nothing is expired for so long; who asks is tried at once.
RETRY_MS = 1000
# How often the small chores are looked at.
CHORES_MS = 60_000


class Keeper:
    """``tell``: posts to the network. ``sink``: the journal, None for none."""

    def __init__(
        self,
        room: Room,
        store: Store,
        clock: ServiceClock,
        desk: Desk,
        *,
        tell: Callable[[NetworkCommand], None],
        retention_ms: int,
        sink: Sink | None = None,
    ) -> None:
        self.mailbox: Mailbox[KeeperCommand] = Mailbox()
        self.room = room
        self._store = store
        self._clock = clock
        self._desk = desk
        self._tell = tell
        self._sink = sink
        self._retention_ms = retention_ms
        self._taken: deque[KeeperCommand] = deque()
        self._news: list[NetworkCommand] = []  # for the network, not told yet
        self._size = 0  # bytes of what was taken
        self._stopping = False
        self._retry_ms = 0  # nothing expires before
        self._chores_ms = clock.now_ms()  # when they are due
        self._facts = clock.facts()
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
            position = self._sink.start(str(self._store.meta()[SOURCE]), self._journaled)
            self.room.journaled(position)
            replay(self._store, self._sink, position)

    def now_ms(self) -> int:
        """The time of its clock; any thread."""
        return self._clock.now_ms()

    def _journaled(self, position: Position) -> None:
        with contextlib.suppress(MailboxClosed):  # the next start will ask
            self.mailbox.send(Journaled(position))

    def wait(self, timeout: float | None) -> None:
        """Sleep until commands come, for ``timeout`` seconds at most, and take them."""
        self.tell()
        mailbox = self.mailbox
        command = mailbox.recv(timeout)
        while command is not None:
            self._taken.append(command)
            if isinstance(command, Asked):
                self._size += command.size
            if len(self._taken) >= FRAMES_A_TURN or self._size >= BYTES_A_TURN:
                break
            # What comes just now is found at the next wait.
            command = mailbox.recv(0) if mailbox.peek() else None

    def tell(self) -> None:
        """Tell the network what came of the turn.

        The last thing before a sleep: its thread then finds the interpreter free.
        """
        news, self._news = self._news, []
        for command in news:
            self._tell(command)

    def wake(self) -> None:
        """Nobody needs to: all that could is a command."""

    def max_sleep(self) -> float | None:
        """Seconds until something is due."""
        next_ms = self._chores_ms
        forget_ms = self.room.forgettable_ms()
        if forget_ms is not None:
            next_ms = min(next_ms, max(forget_ms, self._retry_ms))
        due_ms = self.room.next_ms()
        if due_ms is not None:
            next_ms = min(next_ms, max(due_ms, self._retry_ms))
        return self._clock.seconds_until(next_ms)

    def advance_clock(self) -> bool:
        """Do a turn."""
        try:
            self._turn()
        except Exception as error:  # noqa: BLE001  # memory and disk might disagree from here on
            self._fail(error)
        return True

    def _turn(self) -> None:
        now_ms = self._clock.now_ms()
        turn = self.room.begin(now_ms)
        if now_ms >= self._retry_ms:
            self.room.expire()
        others = self._take_requests()
        self._do_chores(now_ms)
        pushes = self._desk.pushes(turn) if self._commit(turn) else []
        self._news.append(Deliver(self._desk.answers(), pushes, self._size))
        self._size = 0
        self._answer_others(others)

    def _take_requests(self) -> list[More | Journaled | Stop]:
        """Do what was asked; returns what is no request."""
        others: list[More | Journaled | Stop] = []
        taken, self._taken = self._taken, deque()
        for command in taken:
            if isinstance(command, (Asked, Attach)):
                self._desk.take(command)
            elif isinstance(command, Detach):
                client = self.room.client(command.client)
                client.connections -= 1
                self.room.drop_if_idle(client)
            else:
                others.append(command)
        return others

    def _answer_others(self, others: Iterable[More | Journaled | Stop]) -> None:
        for command in others:
            if isinstance(command, More):
                frame, last = self._desk.more(command.client, command.after)
                self._news.append(Told(command.route, frame, last))
            elif isinstance(command, Journaled):
                self.room.journaled(command.position)
            else:
                self._stopping = True

    def _do_chores(self, now_ms: int) -> None:
        room = self.room
        forget_ms = room.forgettable_ms()
        if forget_ms is not None and now_ms >= max(forget_ms, self._retry_ms):
            room.forget()
        if now_ms >= self._chores_ms:
            self._chores_ms = now_ms + CHORES_MS
            room.outlive(now_ms - self._retention_ms)
            self._note_facts()

    def _note_facts(self) -> None:
        facts = self._clock.facts()
        if abs(facts["drift_ms"] - self._facts["drift_ms"]) >= RETRY_MS:
            log.warning("the wall clock is %d ms off the service's", facts["drift_ms"])
            self._facts = facts
            try:
                self._store.set_meta(facts)
            except StoreError as error:
                log.warning("%s", error)  # again at the end

    def _commit(self, turn: Turn) -> bool:
        """Have a turn on disk, or undone."""
        self.room.settle()
        if not turn.changes:
            return True
        start = time.perf_counter()
        try:
            self._store.commit(turn.changes)
        except StoreError as error:
            self.commit_failures += 1
            self.room.undo()
            self._desk.undone(StoreFailed(str(error)))
            self._retry_ms = turn.now_ms + RETRY_MS
            if error.fatal:
                self._fail(error)
            else:
                log.error("nothing was written: %s", error)  # noqa: TRY400  # words say all
            return False
        self.commit_seconds += time.perf_counter() - start
        self.commits += 1
        self._retry_ms = 0
        self._committed(turn)
        return True

    def _committed(self, turn: Turn) -> None:
        self.submitted += len(turn.submitted)
        for _, ended in turn.ended:
            self.ended[ended.outcome] += 1
        if self._sink is not None and (turn.submitted or turn.ended):
            self._sink.write(operation_rows(turn), outcome_rows(turn))

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
                self._store.set_meta(self._clock.facts())
                turn = self.room.begin(self._clock.now_ms())
                self.room.forget(everything=True)
                self._store.commit(turn.changes)
        except StoreError as error:
            log.warning("%s", error)  # nothing that was promised
        finally:
            self._store.close()
            if self._sink is not None:
                self._sink.close()
            self.mailbox.close()
            self._news.append(Stopped(self.failure))
            self.tell()
