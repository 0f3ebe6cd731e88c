"""Replay: sends a recorded trace through a real Purgatory.

The purgatory runs on a `ReplayClock`, in virtual time or in real time. Both give the same outcomes,
to the millisecond. The order within one instant is submissions, extensions, key events,
expirations: the clock moves past the instant when the first three are done.

All of it runs in the thread that calls `Replay.run`; `Replay.stop` is for any thread and for signal
handlers. Memory grows with what is pending, not with the length of the trace.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from prometheus_client import CollectorRegistry

from purgatory.core.keyed import KeyedOperation
from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import Outcome
from purgatory.core.start_and_close import Purgatory
from purgatory.replay.clock import BEFORE_ANY_TRACE_MS, ReplayClock
from purgatory.replay.instants import Instant, instants
from purgatory.replay.quantiles import WaitQuantiles
from purgatory.trace import Extension, KeyEvent, Operation, OutcomeRow
from timingwheel.lowlevel import NS_PER_MS

# The longest delay that a timer takes.
LONGEST_DELAY_MS: Final = 2**62
# More events than fit into memory.
_MAX_HELD: Final = 2**62
_NS_PER_S: Final = 1000 * NS_PER_MS


class KeyFailed(Exception):
    """What a failed event of a trace fails its key with."""


class TraceOperation(KeyedOperation):
    """One operation of a trace, with the deadline in force.

    `timeout_ms`: counts from the reading of the replay's clock.
    """

    __slots__ = ("due_ms", "row")

    def __init__(self, row: Operation, due_ms: int, timeout_ms: int) -> None:
        super().__init__(0, row.need)
        # The unit of the replay's clock; see `ReplayClock`.
        self.delay_ns = min(timeout_ms, LONGEST_DELAY_MS)
        self.row: Operation = row
        self.due_ms: int = due_ms


@dataclass(slots=True)
class ReplaySummary:
    """Counts of the operations of one kind; `waits` are those of all that ended."""

    operations: int = 0
    completed: int = 0
    expired: int = 0
    failed: int = 0
    waits: WaitQuantiles = field(default_factory=WaitQuantiles)

    @property
    def pending(self) -> int:
        """The operations that were still waiting when the replay stopped."""
        return self.operations - self.ended

    @property
    def ended(self) -> int:
        """The operations that have an outcome."""
        return self.completed + self.failed + self.expired

    def add(self, other: "ReplaySummary") -> None:
        """Add the counts of another summary."""
        self.operations += other.operations
        self.completed += other.completed
        self.expired += other.expired
        self.failed += other.failed
        self.waits.add(other.waits)


class Replay:
    """A purgatory for one run of a trace. Use it in a `with` block.

    `speed` is how many seconds of the trace pass in a second of real time; None is virtual time.
    `on_outcome` is called with each outcome as it occurs. `registry` is a Prometheus registry that
    shows the purgatory's metrics until the replay is closed. Raises ValueError for a bad speed.
    """

    def __init__(
        self,
        *,
        speed: float | None = None,
        on_outcome: Callable[[OutcomeRow], object] | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.kinds: dict[str, ReplaySummary] = {}
        self.seconds: float = 0.0  # of real time, for the whole run
        self._on_outcome = on_outcome
        self._clock = ReplayClock(speed)
        self._instant = 0  # the time that is being processed
        self._last_deadline = BEFORE_ANY_TRACE_MS
        self._failure: BaseException | None = None  # raised by on_outcome
        # What waits, by the id of the operation; empty if there are no extensions.
        self._waiting: dict[str, list[TraceOperation]] = {}
        self._may_extend = False
        self._purgatory = Purgatory(
            "replay",
            timer=self._clock.timer,
            journal=self,
            registry=registry,
            on_error=self._fail,
            max_held=_MAX_HELD,
        )

    @property
    def pending(self) -> int:
        """The number of operations that wait now."""
        return self._purgatory.delayed

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._clock.stopped

    def stop(self) -> None:
        """Make `run` return soon; operations that wait are left without an outcome."""
        self._clock.stop()

    def run(
        self,
        operations: Iterable[Operation],
        events: Iterable[KeyEvent],
        progress: Callable[[int], object] | None = None,
        *,
        extensions: Iterable[Extension] | None = None,
    ) -> ReplaySummary:
        """Replay a trace, all tables in time order; returns the summary over all kinds.

        `progress(done)` is called after each instant with the number of rows that are done. An
        exception of an iterator or of `on_outcome` ends the run and is raised.
        """
        start = time.perf_counter()
        done = 0
        self._may_extend = extensions is not None
        try:
            for instant in instants(iter(operations), iter(extensions or ()), iter(events)):
                self._clock.advance_to(instant.at_ms - 1)
                if self.stopped:
                    break
                self._process_instant(instant)
                done += instant.rows
                if progress is not None:
                    progress(done)
            self._clock.advance_to(self._last_deadline)
        finally:
            self.seconds = time.perf_counter() - start
        if self._failure is not None:
            raise self._failure
        return self.total()

    def total(self) -> ReplaySummary:
        """Return the summary over all kinds."""
        total = ReplaySummary()
        for kind in self.kinds.values():
            total.add(kind)
        return total

    def _process_instant(self, instant: Instant) -> None:
        self._instant = instant.at_ms
        now_ms = self._clock.now_ms()
        # Of several for one operation the last one wins. Held events count at the submission, but
        # after the extensions of its instant.
        extended = {row.op_id: row.deadline_ms for row in instant.extensions}
        for row in instant.operations:
            self._submit(row, extended.get(row.op_id, row.deadline_ms), now_ms)
        for op_id, due_ms in extended.items():
            self._extend(op_id, due_ms, now_ms)
        if instant.has_plain_events():
            for event in instant.events:
                self._purgatory.complete(event.key)
        else:
            self._process_events(instant.events)

    def _submit(self, row: Operation, due_ms: int, now_ms: int) -> None:
        self.kinds.setdefault(row.kind, ReplaySummary()).operations += 1
        self._last_deadline = max(self._last_deadline, due_ms)
        operation = TraceOperation(row, due_ms, due_ms - now_ms)
        if self._may_extend:
            self._waiting.setdefault(row.op_id, []).append(operation)
        self._purgatory.try_complete_else_watch(operation, row.keys)

    def _extend(self, op_id: str, due_ms: int, now_ms: int) -> None:
        for operation in self._waiting.get(op_id, ()):
            operation.due_ms = due_ms
            self._last_deadline = max(self._last_deadline, due_ms)
            self._purgatory.extend(operation, _timer_seconds(due_ms - now_ms))

    def _process_events(self, events: list[KeyEvent]) -> None:
        """Complete or fail keys, and hold the longest held event of each."""
        longest = _longest_holds(events)
        for place, event in enumerate(events):
            held = longest.get(event.key, len(events))
            if event.failed:
                self._purgatory.fail(event.key, KeyFailed)
            elif place < held:
                self._purgatory.complete(event.key)
            elif place == held:
                self._purgatory.complete(event.key, hold=_timer_seconds(event.hold_ms))
            # Else nothing waits for the key any more, and the longest hold stays.

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Count an outcome. Called by the purgatory, as the replay is its journal."""
        assert isinstance(operation, TraceOperation)
        if outcome is Outcome.CANCELLED:  # by `close`, after a stop: in the trace it still waits
            return
        row = operation.row
        if self._may_extend:
            self._forget(operation)
        at_ms = operation.due_ms if outcome is Outcome.EXPIRED else self._instant
        kind = self.kinds[row.kind]
        if outcome is Outcome.COMPLETED:
            kind.completed += 1
        elif outcome is Outcome.EXPIRED:
            kind.expired += 1
        else:
            kind.failed += 1
        kind.waits.count(at_ms - row.submitted_ms)
        if self._on_outcome is not None:
            self._on_outcome(self._outcome_row(row, outcome, at_ms, operation))

    def _outcome_row(
        self, row: Operation, outcome: Outcome, at_ms: int, operation: TraceOperation
    ) -> OutcomeRow:
        return OutcomeRow(
            op_id=row.op_id,
            kind=row.kind,
            outcome=outcome.value,
            at_ms=at_ms,
            by_key=str(operation.by_key) if outcome is Outcome.COMPLETED else None,
            submitted_ms=row.submitted_ms,
            deadline_ms=operation.due_ms,
            waited_ms=at_ms - row.submitted_ms,
            lateness_ms=self._clock.lateness_ms(at_ms),
        )

    def _forget(self, operation: TraceOperation) -> None:
        op_id = operation.row.op_id
        rest = [other for other in self._waiting[op_id] if other is not operation]
        if rest:
            self._waiting[op_id] = rest
        else:
            del self._waiting[op_id]

    def _fail(self, error: BaseException, _: DelayedOperation) -> None:
        self._failure = self._failure or error
        self.stop()

    def close(self) -> None:
        """Close the purgatory and its timer; the summaries stay."""
        self._purgatory.close()
        self._clock.timer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _longest_holds(events: list[KeyEvent]) -> dict[str, int]:
    """Return the place of the longest hold, of equal ones the first, by key."""
    places: dict[str, int] = {}
    for place, event in enumerate(events):
        if event.hold_ms and not event.failed:
            before = places.get(event.key)
            if before is None or event.hold_ms > events[before].hold_ms:
                places[event.key] = place
    return places


def _timer_seconds(ms: int) -> float:
    """Return what the replay's timer takes for so many milliseconds; exact below 2**52."""
    return min(ms, LONGEST_DELAY_MS) / _NS_PER_S
