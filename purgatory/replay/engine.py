"""Replay: a recorded trace, sent through a real Purgatory.

The purgatory runs on a clock that is moved by hand through the times of the trace: from instant to
instant at once (virtual time), or no faster than ``speed`` seconds of the trace a second of the
wall. Both give the same outcomes, to the millisecond, in the order of a trace: at one instant
submissions, then key events, then expirations.

How that order comes about: the clock shows the last instant that is *over*. While instant t is
worked at it reads t - 1, so nothing of t has expired; when it moves on to t or later, what was due
at t does.

All of it happens in the thread that calls `Replay.run`; `Replay.stop` may be called from any
thread and from a signal handler. Memory follows what is pending, not the length of the trace.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry

from purgatory.core.keyed import KeyedOperation
from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import Outcome
from purgatory.core.start_and_close import Purgatory
from purgatory.replay.quantiles import WaitQuantiles
from purgatory.trace import KeyEvent, Operation, OutcomeRow
from timingwheel import InlineExecutor, ManualClock, Timer

# How long a wait in real time may keep `stop` waiting, in seconds.
STOP_POLL_S = 0.05
# Before any trace begins, and the longest wait that a timer takes.
BEFORE_ANY_TRACE_MS = -(2**63)
LONGEST_DELAY_MS = 2**62


class TraceOperation(KeyedOperation):
    """One operation of a trace. ``timeout_ms`` counts from the reading of the replay's clock."""

    __slots__ = ("row",)

    def __init__(self, row: Operation, timeout_ms: int) -> None:
        super().__init__(0, row.need)
        # Not by way of seconds: a float does not hold all the milliseconds that a trace may.
        self.delay_ms = min(timeout_ms, LONGEST_DELAY_MS)
        self.row = row


@dataclass(slots=True)
class ReplaySummary:
    """What became of the operations of one kind; ``waits`` are those of all that ended."""

    operations: int = 0
    completed: int = 0
    expired: int = 0
    waits: WaitQuantiles = field(default_factory=WaitQuantiles)

    @property
    def pending(self) -> int:
        """How many were still waiting when the replay stopped."""
        return self.operations - self.completed - self.expired

    def add(self, other: "ReplaySummary") -> None:
        """Count what another summary counted."""
        self.operations += other.operations
        self.completed += other.completed
        self.expired += other.expired
        self.waits.add(other.waits)


class Replay:
    """A purgatory for one run of a trace. See the module; use it in a ``with`` block.

    ``speed``: seconds of the trace a second of the wall; None: virtual time. ``on_outcome``: told
    of each outcome, as it comes about. ``registry``: a Prometheus registry that shows the
    purgatory's metrics until the replay is closed. ValueError for a bad speed.
    """

    def __init__(
        self,
        *,
        speed: float | None = None,
        on_outcome: Callable[[OutcomeRow], object] | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        if speed is not None and not 0 < speed < float("inf"):
            raise ValueError(f"speed is {speed!r}; expected a finite number above 0")
        self.kinds: dict[str, ReplaySummary] = {}
        self.stopped = False
        self.seconds = 0.0  # of the wall, for the whole run
        self._speed = speed
        self._on_outcome = on_outcome
        self._instant = 0  # the time being worked at
        self._last_deadline = BEFORE_ANY_TRACE_MS
        self._failure: BaseException | None = None  # of on_outcome
        self._origin: tuple[int, float] | None = None  # the first instant, and when it was here
        self._clock = ManualClock(BEFORE_ANY_TRACE_MS)
        self._timer = Timer("replay", clock=self._clock, executor=InlineExecutor())
        self._purgatory = Purgatory(
            "replay", timer=self._timer, journal=self, registry=registry, on_error=self._fail
        )

    @property
    def pending(self) -> int:
        """How many operations wait at this moment."""
        return self._purgatory.delayed

    def stop(self) -> None:
        """Make `run` return soon; operations that wait are left without an outcome."""
        self.stopped = True

    def run(
        self,
        operations: Iterable[Operation],
        events: Iterable[KeyEvent],
        progress: Callable[[int], object] | None = None,
    ) -> ReplaySummary:
        """Send a trace through, both tables in time order; return the summary over all kinds.

        ``progress(done)`` is called after each instant with the number of rows worked at. What
        iterating or ``on_outcome`` raises comes through, and ends the run.
        """
        start = time.perf_counter()
        done = 0
        try:
            for instant, rows, keys in _instants(iter(operations), iter(events)):
                self._advance_to(instant - 1)
                if self.stopped:
                    break
                self._process_instant(instant, rows, keys)
                done += len(rows) + len(keys)
                if progress is not None:
                    progress(done)
            self._advance_to(self._last_deadline)
        finally:
            self.seconds = time.perf_counter() - start
        if self._failure is not None:
            raise self._failure
        return self.total()

    def total(self) -> ReplaySummary:
        """The summary over all kinds."""
        total = ReplaySummary()
        for kind in self.kinds.values():
            total.add(kind)
        return total

    def _process_instant(self, instant: int, rows: list[Operation], keys: list[str]) -> None:
        self._instant = instant
        now_ms = self._clock()
        for row in rows:
            self.kinds.setdefault(row.kind, ReplaySummary()).operations += 1
            self._last_deadline = max(self._last_deadline, row.deadline_ms)
            operation = TraceOperation(row, row.deadline_ms - now_ms)
            self._purgatory.try_complete_else_watch(operation, row.keys)
        for key in keys:
            self._purgatory.complete(key)

    def _advance_to(self, limit_ms: int) -> None:
        """Move the clock, at the speed asked for; what is due on the way expires."""
        if self._origin is None:
            self._origin = limit_ms, time.monotonic()
        while not self.stopped:
            now_ms = limit_ms if self._speed is None else min(limit_ms, self._now_ms())
            if now_ms > self._clock():
                self._clock.advance_to(now_ms)
                self._timer.advance_clock()
            if now_ms >= limit_ms:
                return
            self._sleep_towards(limit_ms)

    def _now_ms(self) -> int:
        """The time of the trace that the wall clock stands for."""
        assert self._origin is not None
        assert self._speed is not None
        first, begin = self._origin
        return first + int((time.monotonic() - begin) * 1000 * self._speed)

    def _sleep_towards(self, limit_ms: int) -> None:
        assert self._speed is not None
        left = (limit_ms - self._now_ms()) / 1000
        due = self._timer.delay_to_next()
        time.sleep(
            min(STOP_POLL_S, max(0.0, min(left, left if due is None else due)) / self._speed)
        )

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Note an outcome: the purgatory's journal is the replay itself."""
        assert isinstance(operation, TraceOperation)
        if outcome is Outcome.CANCELLED:  # stopped: as far as the trace goes, it still waits
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
            lateness_ms=0 if self._speed is None else max(0, self._now_ms() - at_ms),
        )

    def _fail(self, error: BaseException, _: DelayedOperation) -> None:
        self._failure = self._failure or error
        self.stop()

    def close(self) -> None:
        """Close the purgatory and its timer; the summaries stay."""
        self._purgatory.close()
        self._timer.close()

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
    """Merge both tables: each time that occurs, with its submissions and its completed keys."""
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
