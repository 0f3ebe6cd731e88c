"""ServerState: a server's pending operations, its clients and their outcomes.

Changed by the open `Transaction` alone, and by `recovery` at the start. Used by the store thread
alone; `purgatory` and `unacknowledged` may be read by any.

The timer's clock is moved by hand, once a transaction: all of a transaction happens at one moment.
"""

import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

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
from purgatory.service.server.records.operation import PendingOperation, expiry_delay
from purgatory.service.server.records.operation_counts import OperationCounts
from purgatory.service.server.records.remembered_ids import RememberedIds
from purgatory.service.server.records.remembered_replies import RememberedReplies
from purgatory.service.server.records.retention import OutcomeRetention
from purgatory.service.server.records.spreads import Spreads
from purgatory.service.server.repeats.repeat_registry import RepeatRegistry
from purgatory.service.server.server_health import RecentFailures
from purgatory.service.store.rows import JournalPosition
from timingwheel import Timer

if TYPE_CHECKING:
    from purgatory.service.server.records.spreads import SpreadRequest

_RunBucket = Callable[[Any], None]
_NEVER_NS: Final = sys.maxsize
# So many operations end in about 0.6 ms; an event with more bytes of values has its value once.
PORTION: Final = 100
#: Ended operations stay readable for so long after their period: a program may still wait for the
#: result.
READABLE_MS: Final = 20_000
COPIED_BYTES: Final = 1 << 18


class OutcomeReceiver:
    """Receives each operation that ends; the open transaction is one."""

    def add_outcome(self, operation: PendingOperation, outcome: Outcome) -> None:
        """Note that an operation has ended."""
        raise NotImplementedError

    def settle(self, operation: PendingOperation) -> None:
        """Let the unfinished events count for an operation."""
        raise NotImplementedError


class DeferredExecutor:
    """A `lowlevel.TaskExecutor` that keeps buckets until `run` is called. One thread."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[_RunBucket, Any]] = deque()

    def run(self, enough: Callable[[], bool]) -> None:
        """Run the buckets in order, until there are no more or `enough` returns True."""
        while self._buckets and not enough():
            run, bucket = self._buckets[0]
            run(bucket)
            if not len(bucket):  # else interrupted
                self._buckets.popleft()

    def interrupt(self) -> None:
        """Have `run` return after the present task; called by the task. The rest runs later."""
        if self._buckets:
            self._buckets[0][1].take_over()

    def __bool__(self) -> bool:
        """Return whether any bucket is left."""
        return bool(self._buckets)

    def execute(self, run: _RunBucket, bucket: Any) -> None:
        """See `timingwheel.lowlevel.TaskExecutor`."""
        self._buckets.append((run, bucket))

    def flush(self) -> None:
        """Do nothing: there is no thread to wake."""

    def resume(self) -> None:
        """Do nothing: the owner calls `run` again."""

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Do nothing: what was not run is still pending on disk."""
        del wait, timeout


class ServerState:
    """The state of a server, in memory. Its timer begins at `start_ms`.

    `max_memory`: bytes for the process; 0: unlimited. `epoch`: see `JobLeases`.
    """

    def __init__(
        self,
        name: str,
        start_ms: int,
        registry: CollectorRegistry | None = None,
        max_memory: int = 0,
        epoch: int = 0,
    ) -> None:
        self.max_memory: int = max_memory
        #: Bytes that the pending operations take.
        self.pending_bytes: int = 0
        self.clock: TransactionClock = TransactionClock(start_ms)
        self._executor = DeferredExecutor()
        # Shorter than a millisecond, the unit of all that the server stores and tells, because an
        # expiry is told within it; no shorter, because each tick is a transaction.
        self.timer: Timer = Timer(
            name, tick_ms=TICK_NS / NS_PER_MS, clock=self.clock, executor=self._executor
        )
        self.purgatory: Purgatory = Purgatory(
            name, timer=self.timer, journal=self, registry=registry
        )
        self.parts: Final = parts_of(self.purgatory)
        #: By operation id: pending operations, and ended ones until deleted.
        self.known: dict[str, PendingOperation | OutcomeRecord] = {}
        #: What has ended and is not in `known` any more, but in the store until its time.
        self.remembered: RememberedIds = RememberedIds()
        self.clients: ClientRegistry = ClientRegistry()
        #: All jobs, as they are on disk.
        self.jobs: JobIndex = JobIndex()
        #: The operations in `known` that are no jobs, as they are on disk.
        self.operation_counts: OperationCounts = OperationCounts()
        self.retention: OutcomeRetention = OutcomeRetention(
            self.known, self.clients, self.jobs, self.operation_counts
        )
        #: The last numbers given, to an operation and to an outcome. A rolled back transaction
        #: keeps its numbers: they leave a gap.
        self.last_number = 0
        self.last_seq = 0
        self.stamp: Stamp = Stamp(start_ms)
        self.held: HeldKeys = HeldKeys()
        #: Events that are for many operations and have not ended all of them, in order.
        self.spreads: Spreads = Spreads(self.settle)
        #: Their requests, by session and number.
        self.spread_requests: dict[tuple[str, int], SpreadRequest] = {}
        self.last_spread = 0
        #: An event for more operations than that is a spread, and ends so many in a transaction. It
        #: ends more while commits take long.
        self.portion: int = PORTION
        self.leases: JobLeases = JobLeases(epoch)
        self.leases.observer = self.jobs
        self.mass_cancels: MassCancels = MassCancels()
        self.waiting_moves: WaitingMoves = WaitingMoves()
        self.repeats: RepeatRegistry = RepeatRegistry()
        self.named_leases: NamedLeases = NamedLeases(epoch)
        self.failures: RecentFailures = RecentFailures()
        self.replies: RememberedReplies = RememberedReplies(max_memory // REPLIES_SHARE)
        self.journal_numbers: JournalNumbers = JournalNumbers(JournalPosition(0, 0), (0, 0, 0))
        #: Metadata of this start for which the disk had no room. Until they are written, nothing is
        #: committed and no job is leased: the next run has to know the clock of times and the epoch
        #: of leases.
        self.unnoted: dict[str, Any] = {}
        #: The open transaction; None: outcomes are not recorded, as while one is rolled back.
        self.receiver: OutcomeReceiver | None = None
        # Nothing is due before; perhaps later, if the waiting operation ended otherwise.
        self._next_deadline_ns: i64 = 0

    @property
    def total(self) -> int:
        """How many operations and outcomes count towards the limit of the whole server.

        Pending operations, unacknowledged outcomes, and acknowledged ones beyond the number that is
        kept, because they are not in the journal yet.
        """
        return self.purgatory.delayed + self.unacknowledged + self.retention.overdue

    @property
    def memory_bytes(self) -> int:
        """How much memory the process takes, by estimate. O(1); any thread."""
        return (
            PROCESS_BYTES
            + self.pending_bytes
            + self.retention.bytes
            + JOB_BYTES * len(self.leases.by_number)
            + self.jobs.bytes
            + self.jobs.watches.bytes
            + self.held.bytes
            + self.replies.bytes
            + self.remembered.memory_bytes
            + self.named_leases.bytes
            + self.clients.bytes
            + self.repeats.bytes
            + self.leases.limits.bytes
        )

    @property
    def memory_left(self) -> int:
        """How many bytes may be added; below 0 if it takes too many already."""
        return self.max_memory - self.memory_bytes if self.max_memory else sys.maxsize

    def no_room(self, what: str) -> TooMuchMemory:
        """Return the refusal of what takes more than `memory_left`."""
        return TooMuchMemory(
            f"no room for {what}: the server takes {self.memory_bytes} bytes of memory; "
            f"expected at most {self.max_memory}"
        )

    @property
    def unacknowledged(self) -> int:
        """How many outcomes wait for their client's acknowledgement."""
        return self.retention.unacknowledged

    def watch(self, operation: PendingOperation, keys: Sequence[str]) -> None:
        """Let an operation wait for the keys and the deadline."""
        self._note_deadline(operation.op_deadline_ns)
        operation.unfinished = self.spreads
        operation.keys = distinct_keys(keys)  # type: ignore[assignment]  # the texts it was given
        submit(self.parts, operation, operation.keys, is_internal=True)
        self.known[operation.op_id] = operation

    def find(self, op_id: str, owner: str | None) -> PendingOperation | OutcomeRecord | None:
        """Return an operation's entry; None if unknown, or after its period.

        `owner`: the name of a client that sees only its own operations; None: sees all.
        """
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
        """Return the operations watching a key, the longest waiting first."""
        found: list[PendingOperation] = []
        for operation in self.parts.lists.watchers_of(key):
            assert isinstance(operation, PendingOperation)
            found.append(operation)
        found.sort(key=_number)  # a rolled back transaction may have watched some of them anew
        return found

    def is_for_many(self, count: int, value: bytes) -> bool:
        """Whether an event for so many operations ends them in portions, and has its value once."""
        return count > self.portion or (count > 1 and count * len(value) > COPIED_BYTES)

    def settle(self, operation: PendingOperation) -> None:
        """Let the unfinished events count for an operation, in the open transaction."""
        assert self.receiver is not None
        self.receiver.settle(operation)

    def set_deadline(self, operation: PendingOperation, deadline_ns: int) -> None:
        """Move the deadline of a pending operation."""
        self._note_deadline(deadline_ns)
        operation.op_deadline_ns = deadline_ns
        operation.op_deadline_ms = deadline_ns // NS_PER_MS
        self.timer.reschedule(operation, expiry_delay(deadline_ns, self.clock.now_ns()))

    def expire_due(self, now_ns: int, enough: Callable[[], bool]) -> None:
        """Move the timer to `now_ns` and expire what is due, until `enough` says so.

        The rest is expired by the next call.
        """
        self.clock.follow(now_ns)
        if now_ns >= self._next_deadline_ns:
            self._next_deadline_ns = 0
            self.timer.advance_clock()
            self._executor.run(enough)
            if not self._executor:
                delay = self.timer.delay_to_next()
                now_ns = self.clock.now_ns()
                self._next_deadline_ns = _NEVER_NS if delay is None else now_ns + round(delay * 1e9)

    @property
    def has_unfinished_expiry(self) -> bool:
        """Whether `expire_due` has left due operations."""
        return bool(self._executor)

    def interrupt_expiry(self) -> None:
        """Let `expire_due` end after the present operation; nothing happens if it does not run."""
        self._executor.interrupt()

    def next_wake_ns(self) -> int | None:
        """Return when to look for what is due, or held long enough; None if there is neither.

        An operation that has ended may be the reason, once: the look finds when the next is due.
        """
        wake_ns = self._next_deadline_ns or self.clock.now_ns()
        if self.held.by_key and (release_ms := self.held.next_end_ms()) is not None:
            wake_ns = min(wake_ns, release_ms * NS_PER_MS)
        return None if wake_ns == _NEVER_NS else wake_ns

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Pass an outcome on to the open transaction; see `purgatory.Journal`."""
        assert isinstance(operation, PendingOperation)
        if self.receiver is not None:
            self.receiver.add_outcome(operation, outcome)


def _number(operation: PendingOperation) -> int:
    return operation.number


# The records of a million operations are not visited: no lock is among them.
at_exit.register_many(ServerState)
