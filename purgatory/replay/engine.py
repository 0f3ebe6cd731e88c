"""Replay: sends a recorded trace through a real Purgatory.

The purgatory runs on a `ReplayClock`, in virtual time or in real time. Both give the same outcomes,
to the millisecond. The order within one instant is submissions, key events, expirations: the clock
moves past the instant when the first two are done.

All of it runs in the thread that calls `Replay.run`; `Replay.stop` is for any thread and for signal
handlers. Memory grows with what is pending, not with the length of the trace.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from prometheus_client import CollectorRegistry

from purgatory.core.keyed import KeyedOperation
from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import Outcome
from purgatory.core.start_and_close import Purgatory
from purgatory.replay.clock import BEFORE_ANY_TRACE_MS, ReplayClock
from purgatory.replay.quantiles import WaitQuantiles
from purgatory.trace import KeyEvent, Operation, OutcomeRow

# The longest delay that a timer takes.
LONGEST_DELAY_MS: Final = 2**62


class TraceOperation(KeyedOperation):
    """One operation of a trace; `timeout_ms` counts from the reading of the replay's clock."""

    __slots__ = ("row",)

    def __init__(self, row: Operation, timeout_ms: int) -> None:
        super().__init__(0, row.need)
        # The unit of the replay's clock; see `ReplayClock`.
        self.delay_ns = min(timeout_ms, LONGEST_DELAY_MS)
        self.row = row


@dataclass(slots=True)
class ReplaySummary:
    """Counts of the operations of one kind; `waits` are those of all that ended."""

    operations: int = 0
    completed: int = 0
    expired: int = 0
    waits: WaitQuantiles = field(default_factory=WaitQuantiles)

    @property
    def pending(self) -> int:
        """The operations that were still waiting when the replay stopped."""
        return self.operations - self.completed - self.expired

    def add(self, other: "ReplaySummary") -> None:
        """Add the counts of another summary."""
        self.operations += other.operations
        self.completed += other.completed
        self.expired += other.expired
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
        self.seconds = 0.0  # of real time, for the whole run
        self._on_outcome = on_outcome
        self._clock = ReplayClock(speed)
        self._instant = 0  # the time that is being processed
        self._last_deadline = BEFORE_ANY_TRACE_MS
        self._failure: BaseException | None = None  # raised by on_outcome
        self._purgatory = Purgatory(
            "replay", timer=self._clock.timer, journal=self, registry=registry, on_error=self._fail
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
    ) -> ReplaySummary:
        """Replay a trace, both tables in time order; returns the summary over all kinds.

        `progress(done)` is called after each instant with the number of rows that are done. An
        exception of an iterator or of `on_outcome` ends the run and is raised.
        """
        start = time.perf_counter()
        done = 0
        try:
            for instant, rows, keys in _instants(iter(operations), iter(events)):
                self._clock.advance_to(instant - 1)
                if self.stopped:
                    break
                self._process_instant(instant, rows, keys)
                done += len(rows) + len(keys)
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

    def _process_instant(self, instant: int, rows: list[Operation], keys: list[str]) -> None:
        self._instant = instant
        now_ms = self._clock.now_ms()
        for row in rows:
            self.kinds.setdefault(row.kind, ReplaySummary()).operations += 1
            self._last_deadline = max(self._last_deadline, row.deadline_ms)
            operation = TraceOperation(row, row.deadline_ms - now_ms)
            self._purgatory.try_complete_else_watch(operation, row.keys)
        for key in keys:
            self._purgatory.complete(key)

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Count an outcome. Called by the purgatory, as the replay is its journal."""
        assert isinstance(operation, TraceOperation)
        if outcome is Outcome.CANCELLED:  # by `close`, after a stop: in the trace it still waits
            return
        row = operation.row
        completed = outcome is Outcome.COMPLETED
        at_ms = self._instant if completed else row.deadline_ms
        kind = self.kinds[row.kind]
        kind.completed += completed
        kind.expired += not completed
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
            deadline_ms=row.deadline_ms,
            waited_ms=at_ms - row.submitted_ms,
            lateness_ms=self._clock.lateness_ms(at_ms),
        )

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


def _instants(
    operations: Iterator[Operation], events: Iterator[KeyEvent]
) -> Iterator[tuple[int, list[Operation], list[str]]]:
    """Merge both tables; yield each time with its submissions and its completed keys."""
    row = next(operations, None)
    event = next(events, None)
    while row is not None or event is not None:
        if event is None or (row is not None and row.submitted_ms <= event.at_ms):
            assert row is not None
            instant = row.submitted_ms
        else:
            instant = event.at_ms
        rows: list[Operation] = []
        while row is not None and row.submitted_ms == instant:
            rows.append(row)
            row = next(operations, None)
        keys: list[str] = []
        while event is not None and event.at_ms == instant:
            keys.append(event.key)
            event = next(events, None)
        yield instant, rows, keys
