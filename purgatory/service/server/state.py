"""ServerState: a server's pending operations, its clients and their outcomes.

`Transaction`, and `recovery` at the start, change it. Store thread alone; any thread may read the
figures.

A transaction happens at one moment of the timer's clock.
"""

import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from prometheus_client import CollectorRegistry

from _purgatory_cpython import at_exit
from _purgatory_cpython.mypyc_types import i64
from purgatory.core.keys import distinct_keys
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import Outcome
from purgatory.core.purgatory import Purgatory
from purgatory.core.purgatory_core import parts_of
from purgatory.core.submission import submit
from purgatory.service.errors import TooMuchMemory
from purgatory.service.server.clock import NS_PER_MS, TICK_NS, Stamp, TransactionClock
from purgatory.service.server.jobs.job_index import JobIndex
from purgatory.service.server.jobs.mass_cancels import MassCancels
from purgatory.service.server.jobs.waiting_moves import WaitingMoves
from purgatory.service.server.journal.journal_numbers import JournalNumbers
from purgatory.service.server.leases.job_leases import JobLeases
from purgatory.service.server.memory import JOB_BYTES, PROCESS_BYTES, REPLIES_SHARE
from purgatory.service.server.named_leases.named_leases import NamedLeases
from purgatory.service.server.records.clients import ClientRegistry, OutcomeRecord
from purgatory.service.server.records.held_keys import HeldKeys
from purgatory.service.server.records.job_record import RUNNING
from purgatory.service.server.records.operation import PendingOperation, expiry_delay
from purgatory.service.server.records.operation_counts import OperationCounts
from purgatory.service.server.records.remembered_ids import ID_BYTES, RememberedIds
from purgatory.service.server.records.remembered_replies import RememberedReplies
from purgatory.service.server.records.retention import READABLE_MS, OutcomeRetention
from purgatory.service.server.records.spreads import Spread, SpreadRequest, Spreads
from purgatory.service.server.repeats.repeat_registry import RepeatRegistry
from purgatory.service.server.server_health import RecentFailures
from purgatory.service.store.rows import JournalPosition
from timingwheel import Timer
from timingwheel.lowlevel import advance_some

_RunBucket = Callable[[Any], None]
_NEVER_NS: Final = sys.maxsize
_NAME: Final = "service"  # in metrics
# So many end in about 0.4 ms. With 100, submits of others came 18 ms later beside an event for a
# million; with 64, 11 ms, and the event takes a fifth longer (`bench_neighbour.py`, waiters).
PORTION: Final = 64
# Batches of tasks that the timer moves in a transaction, each in about 0.1 ms: 300,000 operations
# of one moment would stop others for 150 ms (`bench_neighbour.py`, timeouts).
ADVANCE_BATCHES: Final = 8
# An event with more bytes of values keeps its value once.
COPIED_BYTES: Final = 1 << 18


class OutcomeReceiver:
    """Receives each operation that ends: the open transaction."""

    def add_outcome(self, operation: PendingOperation, outcome: Outcome) -> None:
        """Note that an operation has ended."""
        raise NotImplementedError


class DeferredExecutor:
    """A `lowlevel.TaskExecutor` that keeps buckets until `run`. One thread."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[_RunBucket, Any]] = deque()

    def run(self, enough: Callable[[], bool]) -> None:
        """Run the buckets in order, until `enough` is true."""
        while self._buckets and not enough():
            run, bucket = self._buckets[0]
            run(bucket)
            if not len(bucket):  # else interrupted
                self._buckets.popleft()

    def interrupt(self) -> None:
        """End `run` after the present task; the rest runs later."""
        if self._buckets:
            self._buckets[0][1].take_over()

    def __bool__(self) -> bool:
        """Whether a bucket is left."""
        return bool(self._buckets)

    def execute(self, run: _RunBucket, bucket: Any) -> None:
        """See `timingwheel.lowlevel.TaskExecutor`."""
        self._buckets.append((run, bucket))

    def flush(self) -> None:
        """Do nothing: no thread is to be woken."""

    def resume(self) -> None:
        """Do nothing: the owner calls `run` again."""

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Do nothing: the operations are on disk."""
        del wait, timeout


class ServerState:
    """The state of a server, in memory; its timer begins at `start_ms`.

    `max_memory`: bytes of the process; 0: unlimited. `epoch`: see `JobLeases`.
    """

    def __init__(
        self,
        start_ms: int,
        registry: CollectorRegistry | None = None,
        max_memory: int = 0,
        epoch: int = 0,
    ) -> None:
        self.max_memory: int = max_memory
        self.pending_bytes: int = 0
        self.clock: TransactionClock = TransactionClock(start_ms)
        #: Due operations that `expire_due` has left.
        self.due: DeferredExecutor = DeferredExecutor()
        # Shorter than the millisecond in which an expiry is reported; no shorter: each tick is a
        # transaction.
        self.timer: Timer = Timer(
            _NAME, tick_ms=TICK_NS / NS_PER_MS, clock=self.clock, executor=self.due
        )
        self.purgatory: Purgatory = Purgatory(
            _NAME, timer=self.timer, journal=self, registry=registry
        )
        self.parts: Final = parts_of(self.purgatory)
        #: By operation id: pending operations, and ended ones until deleted.
        self.known: dict[str, PendingOperation | OutcomeRecord] = {}
        #: Ids of ended operations in the store alone.
        self.remembered: RememberedIds = RememberedIds()
        self.clients: ClientRegistry = ClientRegistry()
        self.jobs: JobIndex = JobIndex()
        #: The operations in `known`, without jobs, as on disk.
        self.operation_counts: OperationCounts = OperationCounts()
        self.retention: OutcomeRetention = OutcomeRetention(
            self.known, self.clients, self.jobs, self.operation_counts
        )
        #: The last numbers; a rolled back transaction leaves a gap.
        self.last_number = 0
        self.last_seq = 0
        self.stamp: Stamp = Stamp(start_ms)
        self.held: HeldKeys = HeldKeys()
        #: Unfinished events for many operations, in order.
        self.spreads: Spreads = Spreads()
        #: By session and number.
        self.spread_requests: dict[tuple[str, int], SpreadRequest] = {}
        self.last_spread = 0
        #: An event for more operations is a spread: a transaction ends so many, or more while
        #: commits are slow.
        self.portion: int = PORTION
        self.leases: JobLeases = JobLeases(epoch)
        self.leases.on_moved = self.jobs.moved
        self.mass_cancels: MassCancels = MassCancels()
        self.waiting_moves: WaitingMoves = WaitingMoves()
        self.repeats: RepeatRegistry = RepeatRegistry()
        self.named_leases: NamedLeases = NamedLeases(epoch)
        self.failures: RecentFailures = RecentFailures()
        self.replies: RememberedReplies = RememberedReplies(max_memory // REPLIES_SHARE)
        self.journal_numbers: JournalNumbers = JournalNumbers(JournalPosition(0, 0), (0, 0, 0))
        #: Metadata of the start for which the disk had no room; written before any commit or lease.
        self.unnoted: dict[str, Any] = {}
        #: The open transaction; None in a roll-back: outcomes are not recorded.
        self.receiver: OutcomeReceiver | None = None
        # Nothing is due before.
        self._next_deadline_ns: i64 = 0

    @property
    def total(self) -> int:
        """How many operations and outcomes count towards the server's limit.

        Pending operations, unacknowledged outcomes, and acknowledged ones beyond
        `RETAINED_OUTCOMES`. Without the open transaction's outcomes.
        """
        return self.parts.lists.pending + self.retention.unacknowledged + self.retention.overdue

    @property
    def memory_bytes(self) -> int:
        """The estimated memory of the process. O(1); any thread."""
        return (
            PROCESS_BYTES
            + self.pending_bytes
            + self.retention.bytes
            + JOB_BYTES * len(self.leases.by_number)
            + self.jobs.bytes
            + self.jobs.watches.bytes
            + self.held.bytes
            + self.replies.bytes
            + ID_BYTES * self.remembered.total
            + self.named_leases.bytes
            + self.clients.bytes
            + self.repeats.bytes
            + self.leases.limits.bytes
        )

    @property
    def memory_left(self) -> int:
        """The free bytes; negative if too many are used."""
        return self.max_memory - self.memory_bytes if self.max_memory else sys.maxsize

    def no_room(self, what: str) -> TooMuchMemory:
        """Return the refusal of more than `memory_left`."""
        return TooMuchMemory(
            f"no room for {what}: the server takes {self.memory_bytes} bytes of memory; "
            f"expected at most {self.max_memory}"
        )

    def watch(self, operation: PendingOperation, keys: tuple[str, ...]) -> None:
        """Let an operation wait for keys and deadline."""
        self._note_deadline(operation.op_deadline_ns)
        operation.unfinished = self.spreads
        operation.keys = distinct_keys(keys)  # type: ignore[assignment]  # the texts it was given
        submit(self.parts, operation, operation.keys, is_internal=True)
        self.known[operation.op_id] = operation

    def find(self, op_id: str, owner: str | None) -> PendingOperation | OutcomeRecord | None:
        """Return an operation's entry; None if unknown, after its period, or of another `owner`."""
        entry = self.known.get(op_id)
        if isinstance(entry, OutcomeRecord) and entry.is_over(self.stamp.now_ms - READABLE_MS):
            return None
        if owner is not None and entry is not None and entry.client.name != owner:
            return None
        return entry

    def _note_deadline(self, deadline_ns: i64) -> None:
        expiry_ns = (deadline_ns // TICK_NS + 1) * TICK_NS
        self._next_deadline_ns = min(self._next_deadline_ns, expiry_ns)

    def watchers_of(self, key: str) -> list[PendingOperation]:
        """Return the operations watching a key, in order of submission."""
        found: list[PendingOperation] = []
        for operation in self.parts.lists.watchers_of(key):
            assert isinstance(operation, PendingOperation)
            found.append(operation)
        found.sort(key=lambda one: one.number)  # a roll-back may have added some anew
        return found

    def add_spread(self, spread: Spread) -> None:
        """Let the latest event for many operations end them from now on."""
        self.spreads.add(spread)
        self.pending_bytes += spread.bytes

    def due_jobs(self, key: str) -> list[OutcomeRecord]:
        """Return the due jobs with a key in `unless` that do not run, oldest first."""
        found: list[OutcomeRecord] = []
        for job in self.jobs.by_key.get(key, {}).values():
            entry = self.known.get(job.op_id)
            if isinstance(entry, OutcomeRecord) and entry.job is job and job.state != RUNNING:
                found.append(entry)
        found.sort(key=lambda entry: entry.number)
        return found

    def is_for_many(self, count: int, value: bytes) -> bool:
        """Whether an event for `count` operations is a spread."""
        return count > self.portion or (count > 1 and count * len(value) > COPIED_BYTES)

    def set_deadline(self, operation: PendingOperation, deadline_ns: int) -> None:
        """Move the deadline of a pending operation."""
        self._note_deadline(deadline_ns)
        operation.op_deadline_ns = deadline_ns
        operation.op_deadline_ms = deadline_ns // NS_PER_MS
        self.timer.reschedule(operation, expiry_delay(deadline_ns, self.clock.reading_ns))

    def expire_due(self, now_ns: int, enough: Callable[[], bool]) -> bool:
        """Move the timer, and expire what is due until `enough`; return whether more is due."""
        self.clock.follow(now_ns)
        if now_ns < self._next_deadline_ns:
            return False
        self._next_deadline_ns = 0
        is_more = advance_some(self.timer, ADVANCE_BATCHES)
        self.due.run(enough)
        if is_more or self.due:
            return True
        delay = self.timer.delay_to_next()
        now_ns = self.clock.reading_ns
        self._next_deadline_ns = _NEVER_NS if delay is None else now_ns + round(delay * 1e9)
        return False

    def next_wake_ns(self) -> int | None:
        """Return when something is due, or held long enough, at the earliest; None: never."""
        wake_ns = self._next_deadline_ns or self.clock.reading_ns
        if self.held.by_key and (release_ms := self.held.next_end_ms()) is not None:
            wake_ns = min(wake_ns, release_ms * NS_PER_MS)
        return None if wake_ns == _NEVER_NS else wake_ns

    def next_work_ms(self) -> int:
        """Return when jobs, repeats, leases or deletions are due, at the earliest."""
        leases, retention, numbers = self.leases, self.retention, self.journal_numbers
        times = [self.named_leases.next_wake_ms()]
        if leases.by_number:
            times.append(leases.next_wake_ms(self.clock()))
        if self.repeats.by_key:
            times.append(self.repeats.next_wake_ms())
        if retention.acknowledged:
            times.append(retention.next_deletion_ms())
        if numbers.has_deletable:
            times.append(numbers.next_deletion_ms())
        return min([at_ms for at_ms in times if at_ms is not None], default=sys.maxsize)

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Pass an outcome to the open transaction; see `purgatory.Journal`."""
        assert isinstance(operation, PendingOperation)
        if self.receiver is not None:
            self.receiver.add_outcome(operation, outcome)


# Not visited at exit: no lock is among its records.
at_exit.register_many(ServerState)
