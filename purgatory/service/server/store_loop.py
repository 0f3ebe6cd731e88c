"""StoreLoop: the transactions of a server, in turn.

A transaction takes the requests that have arrived, and expires what is due. Requests that come
during the commit gather for the next, so transactions grow with the load (group commit). It handles
requests for a bounded time, the clients in turn; reads are answered after it, in portions (see
`PendingReads`).

If the commit fails, the transaction is rolled back, and its changes are refused. After a fatal
error the changes may be on disk: they are not answered, and the loop ends with `failure`.

The network thread calls `transact` and `max_sleep`, while its commands are released. The store
thread is timingwheel's `Reaper`: it runs transactions while commands come or operations are due,
releases the commands, and sleeps. The starting thread calls `start`; any thread may read the
counters.
"""

import logging
from collections.abc import Callable
from typing import Final

from _purgatory_cpython.collector import collect_young
from mq import Mailbox
from purgatory.errors import StoreError, StoreFenced
from purgatory.service.errors import StoreFailed
from purgatory.service.platform import REAL_PLATFORM, Platform
from purgatory.service.server.clock import NS_PER_MS, ServiceClock
from purgatory.service.server.commands import (
    ClientCommand,
    ClientConnected,
    ClientDisconnected,
    ClientRequest,
    FetchOutcomes,
    JournalConfirmed,
    NetworkCommand,
    StopStoreLoop,
    StoreLoopCommand,
    StoreLoopStopped,
    StoreReleased,
)
from purgatory.service.server.commits import Commits
from purgatory.service.server.fair_queue import RequestQueue
from purgatory.service.server.journal.journal_rows import committed_rows
from purgatory.service.server.journal.journal_sink import JournalSink
from purgatory.service.server.journal.journal_start import start_journal
from purgatory.service.server.recovery import (
    ACKNOWLEDGED,
    load_spreads,
    pack_acknowledgements,
)
from purgatory.service.server.request_handler import RequestHandler
from purgatory.service.server.state import ServerState
from purgatory.service.server.store_activity import StoreActivity
from purgatory.service.server.transactions.maintenance import Maintenance
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.server.transactions.transaction_observer import TransactionObserver
from purgatory.service.store.contract import Store
from purgatory.service.store.rows import JournalPosition
from timingwheel.lowlevel import yield_gil

log: logging.Logger = logging.getLogger(__name__)

# Seconds of reads after a transaction, about.
READ_S = 0.002
# After a commit of so many seconds a transaction has so many portions of an event.
LONG_COMMIT_S = 0.005
PORTIONS = 5
# After so many ends the cycle collector looks at young objects. By itself it looks late, and stops
# all threads for 20 ms: CPython subtracts freed objects from new ones.
MANY_ENDS = 50
# Leases last so much longer while requests wait: one may be about the lease.
GRACE_MS = 1000


class StoreLoop:
    """Runs the transactions of a server.

    `send` posts to the network thread, from any. `retention_ms`: how long an unacknowledged outcome
    is kept. `observer` sees each transaction.
    """

    #: The store thread begins as if it had taken so many commands.
    START_COMMANDS: Final = 1

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
        platform: Platform = REAL_PLATFORM,
        observer: TransactionObserver | None = None,
    ) -> None:
        self._observer = observer
        self.mailbox: Mailbox[StoreLoopCommand] = platform.mailbox()
        self.state = state
        self._store = store
        self.clock: ServiceClock = clock
        self.handler: RequestHandler = handler
        self._send = send
        self._sink = sink
        state.journal_numbers.is_used = sink is not None
        self._reads = handler.reads
        self.requests: RequestQueue[ClientCommand] = RequestQueue()
        #: Commands that the store thread has taken and not released.
        self.unreleased: int = self.START_COMMANDS
        self._outgoing: list[NetworkCommand] = []
        self._answer: Callable[[NetworkCommand], None] = self._queue_answer
        self._has_ended_many = False  # in the last transaction
        self._stopping = False  # ends when the commands have been handled
        self.read_seconds: float = READ_S
        self._late_ms = 0  # when the oldest late outcome was due; 0: none
        self.failure: Exception | None = None
        self.submitted: int = 0
        self.ended: dict[str, int] = {"completed": 0, "failed": 0, "expired": 0, "cancelled": 0}
        self.activity: StoreActivity = StoreActivity(platform.monotonic_ns)
        handler.reads.jobs.commit_error = self.activity.commit_error
        self._commits = Commits(state, store, clock, self.activity)
        self._maintenance = Maintenance(state, store, clock, self.activity, retention_ms)

    def start(self) -> None:
        """Complete the journal, finish interrupted events, begin the repeats.

        Raises StoreError, and the errors of the journal.
        """
        if self._sink is not None:
            # The next start repeats a late confirmation.
            position = start_journal(
                self._sink,
                self._store,
                self.state,
                lambda found: self._send(JournalConfirmed(found)),
                self._commits.write,
            )
            self._confirm_journaled(position)
        load_spreads(self.state, self._store)
        self._finish_spreads()
        self.state.repeats.begin(self.clock.now_ms())

    def _finish_spreads(self) -> None:
        """End the operations of interrupted events; on a full disk, leave them to later steps."""
        while self.state.spreads.in_order:
            transaction = Transaction(self.state, self.clock.now_ns())
            self._spread(transaction, PORTIONS)
            transaction.prepare()
            try:
                self._commits.write(transaction.changes)
            except StoreError as error:
                if error.fatal:
                    raise
                transaction.roll_back()
                return
            self._publish(transaction)

    def _confirm_journaled(self, position: JournalPosition) -> None:
        self.state.retention.confirm_journaled(position)
        self.state.journal_numbers.confirm(position)

    @property
    def backlog(self) -> int:
        """How many commands wait; any thread."""
        return self.mailbox.depth + self.requests.length

    def wait(self, timeout: float | None) -> None:
        """Send the replies, then take commands; sleep until some come.

        `timeout` 0: do not sleep. Others are ignored: the network thread has the store during the
        sleep, and wakes this thread.
        """
        mailbox = self.mailbox
        idle = timeout != 0 and not self.requests.length and not mailbox.peek()
        if idle and self.unreleased:
            self._outgoing = [StoreReleased(self.unreleased, self._outgoing)]
            self.unreleased = 0
        self.send_replies()
        command = mailbox.recv(None if idle else 0)
        while command is not None:
            self.unreleased += 1
            self._take(command)
            yield_gil()
            # The next wait finds a command that comes after this look.
            command = mailbox.recv(0) if mailbox.peek() else None

    def _take(self, command: StoreLoopCommand) -> None:
        if isinstance(command, ClientRequest):
            self.requests.append(
                command.client, command, command.size, route=command.route, key=command.key
            )
        elif isinstance(command, ClientConnected):
            self.requests.append(command.client, command, route=command.route, key=command.key)
        elif isinstance(command, ClientDisconnected):
            self.requests.append(command.client, command, route=command.route)
        elif isinstance(command, FetchOutcomes):
            self._reads.fetch(command)
        elif isinstance(command, JournalConfirmed):
            self._confirm_journaled(command.position)
        elif isinstance(command, StopStoreLoop):
            self._stopping = True
            self._reads.close()

    def send_replies(self) -> None:
        """Send the network thread the answers.

        Before reads, which take longer, or last before a sleep: the network thread finds the GIL
        free.
        """
        outgoing, self._outgoing = self._outgoing, []
        for command in outgoing:
            self._send(command)

    def wake(self) -> None:
        """Do nothing: commands wake it."""

    def transact(
        self, commands: list[StoreLoopCommand], answer: Callable[[NetworkCommand], None]
    ) -> None:
        """Run a transaction in the network thread.

        `answer` gets the messages after the commit, before journal and reads.
        """
        for command in commands:
            self._take(command)
        self._answer = answer
        self.advance_clock()
        self._answer = self._queue_answer
        outgoing, self._outgoing = self._outgoing, []
        for later in outgoing:
            answer(later)

    def _queue_answer(self, answer: NetworkCommand) -> None:
        self._outgoing.append(answer)

    def max_sleep(self) -> float:
        """Return the seconds until something is due."""
        state, retry_ms = self.state, self._commits.retry_ms
        is_busy = bool(state.spreads.in_order or state.mass_cancels.running or state.leases.begun)
        next_wake_ns = state.next_wake_ns()
        self.activity.deadline_ms = self._late_ms or (next_wake_ns or 0) // NS_PER_MS
        if self.requests.length or self._reads.waiting or (is_busy and not retry_ms):
            return 0.0
        wake_ms = self._maintenance.wake_ms
        if self._commits.look_ms:
            wake_ms = min(wake_ms, self._commits.look_ms)
        if not retry_ms:
            wake_ms = min(wake_ms, state.next_work_ms())
        wake_ns = wake_ms * NS_PER_MS
        if not retry_ms and next_wake_ns is not None:
            wake_ns = min(wake_ns, next_wake_ns)
        return self.clock.seconds_until(wake_ns)

    def advance_clock(self) -> bool:
        """Run a transaction, unless one has failed."""
        if self.failure is not None:
            return False
        activity = self.activity
        activity.step_since_ns = activity.now_ns()
        try:
            self._run_transaction()
        except Exception as error:  # noqa: BLE001  # memory and disk may differ now
            self._fail(error)
        if self._has_ended_many:
            self._has_ended_many = False
            collect_young()
        activity.step_since_ns = activity.commit_since_ns = 0
        return True

    def _run_transaction(self) -> None:
        transaction = Transaction(self.state, self.clock.now_ns())
        if transaction.clock_ms >= self._commits.retry_ms:
            transaction.expire()
        if self._observer is not None:
            self._observer.begun(transaction)
        ended = transaction.outcomes
        due = (ended[0][0].op_deadline_ms, ended[-1][0].op_deadline_ms) if ended else (0, 0)
        transaction = self._handle_requests(transaction)
        if transaction.clock_ms >= self._commits.retry_ms:
            grace_ms = GRACE_MS if self.requests.length else 0
            self._note_leases(transaction, grace_ms)
            self._go_on(transaction)
            if self.state.named_leases.times:
                self.state.named_leases.expire(transaction.clock_ms, grace_ms)
        self._maintenance.run(transaction, self._commits.retry_ms)
        self._end_transaction(transaction)
        self._note_lateness(due)
        if self._reads.waiting:
            self._read()

    def _note_leases(self, transaction: Transaction, grace_ms: int) -> None:
        """End overdue leases, after the requests: one may end or keep a lease."""
        leases = self.state.leases
        if leases.by_number:
            transaction.jobs.lease_ends.expire(grace_ms)
        if leases.begun:
            transaction.jobs.lease_ends.write_begun()

    def _end_transaction(self, transaction: Transaction) -> None:
        transaction.prepare()
        if self._observer is not None:
            self._observer.prepared(transaction)
        clock_ms = transaction.clock_ms
        failure = self._commits.commit(transaction.changes, self.requests.bytes, clock_ms)
        if failure is not None:
            self._roll_back(transaction, failure)
            return
        lost = self._commits.look(clock_ms)
        self._publish(transaction)
        if self._observer is not None:
            self._observer.paused(self._commits.retry_ms)
        self._has_ended_many = len(transaction.outcomes) >= MANY_ENDS
        if lost is not None:
            self._fail(lost)

    def _read(self) -> None:
        self.send_replies()
        answers = self._reads.run(self.read_seconds)
        if self._observer is not None:
            self._observer.read(answers)
        self._outgoing += answers

    def _go_on(self, transaction: Transaction) -> None:
        if self.state.spreads.in_order:
            is_long = self.activity.last_commit_s >= LONG_COMMIT_S
            self._spread(transaction, PORTIONS if is_long else 1)
        if self.state.mass_cancels.running:
            self.handler.cancel_more(transaction)
        if self.state.waiting_moves.commands or self.state.waiting_moves.new:
            self.handler.move_more(transaction)
        if self.state.repeats.by_key:  # after the requests: one may pause a repeat
            self.handler.repeat_runs.run_due(transaction)

    def _spread(self, transaction: Transaction, portions: int) -> None:
        transaction.events.spread(portions * self.state.portion)
        if transaction.events.finished:
            self.handler.finish_spreads(transaction)

    def _note_lateness(self, due: tuple[int, int]) -> None:
        """Note since when an outcome not on disk is due.

        `due`: when the first and the last expired operation were due; (0, 0): none.
        """
        first_ms, last_ms = due
        if self._commits.retry_ms:  # nothing was written
            self._late_ms = min(self._late_ms or first_ms, first_ms or self._late_ms)
        else:  # in order of deadline: the remaining were due later
            self._late_ms = last_ms if last_ms and self.state.due else 0

    def _handle_requests(self, transaction: Transaction) -> Transaction:
        requests = self.requests
        requests.begin()
        while (command := requests.take(transaction.clock_ms)) is not None:
            transaction = self.handler.handle_safely(transaction, command)
            if self._observer is not None:
                self._observer.handled(transaction, command)
            yield_gil()  # the network thread reads the next requests
        return transaction

    def _publish(self, transaction: Transaction) -> None:
        transaction.publish()
        self.submitted += len(transaction.submitted)
        for _, record, _, _ in transaction.outcomes:
            if record.job is None:
                self.ended[record.outcome] += 1
            elif record.outcome != "expired":  # a due job has not ended
                self.ended["cancelled"] += 1
        answer = self.handler.answer(transaction, self.requests.bytes)
        self._answer(answer)
        if self._observer is not None:
            self._observer.ended(transaction, None, answer)
        if self._sink is not None:
            rows = committed_rows(transaction)
            if any(rows):
                self._sink.write(*rows)

    def _roll_back(self, transaction: Transaction, error: StoreError) -> None:
        transaction.roll_back()
        if error.fatal:
            # The changes may be on disk: clients ask again.
            self._fail(error)
            answer = None
        else:
            refusal = StoreFailed(str(error))
            answer = self.handler.reject(transaction, refusal, self.requests.bytes)
            self._answer(answer)
        if self._observer is not None:
            self._observer.ended(transaction, error, answer)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, StoreFenced):  # else this server stands by, and logs why
            log.critical("the server ends: %s", error, exc_info=error)
        self.failure = error

    def finished(self) -> bool:
        """Whether the loop was stopped, or has failed."""
        return self.failure is not None or (self._stopping and not self.requests.length)

    def shut_down(self) -> None:
        """Close database and journal, and tell the network thread."""
        try:
            if self.failure is None:
                self._write_last()
        except StoreError as error:
            log.warning("%s", error)  # no answer promised it
        finally:
            self._store.close()
            if self._sink is not None:
                self._sink.close()
            self.mailbox.close()
            self._outgoing.append(StoreLoopStopped(self.failure))
            self.send_replies()

    def _write_last(self) -> None:
        transaction = Transaction(self.state, self.clock.now_ns())
        self._maintenance.stop(transaction)
        transaction.prepare()
        self._commits.write(transaction.changes)
        transaction.publish()
        self._maintenance.remembering.stop()
        acknowledgements = pack_acknowledgements(self.state.retention)
        self._store.set_metadata({**self.clock.metadata(), ACKNOWLEDGED: acknowledgements})
