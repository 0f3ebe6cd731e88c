"""Replay: sends a recorded trace through a real Purgatory.

The purgatory runs on a `ReplayClock`, in virtual or real time, with the same outcomes. The order
within an instant is submissions, extensions, key events, expirations.

Rows come in windows of a few thousand. In virtual time the wheel is drained once a window; then
outcomes are sorted and passed on.

For one thread; `Replay.stop` is for any thread and for signal handlers. Memory grows with the
pending operations alone.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Self

from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.purgatory import Purgatory
from purgatory.replay.clock import ReplayClock
from purgatory.replay.feeder import Feeder
from purgatory.replay.operation import OutcomeCollector, outcome_columns
from purgatory.replay.summary import ReplaySummary
from purgatory.replay.timeline import Part, Timeline
from purgatory.trace import Extension, KeyEvent, Operation, OutcomeRow, TraceError
from purgatory.trace.tables import Columns, batched
from purgatory.trace.validation import FARTHEST_MS, INT64_MAX
from timingwheel.lowlevel import check_callback

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

# More events than fit into memory.
_MAX_HELD: Final = 2**60
# Different ends counted until they go to the summaries.
_MAX_COUNTED: Final = 16_384
# Columns of a table of operations or outcomes.
_KIND: Final = 1
_OUTCOME: Final = 2
_WAITED: Final = 7


class Replay:
    """A purgatory for one run of a trace. Use it in a `with` block.

    `speed`: seconds of the trace in a second of real time; None: virtual time. `on_outcome` is
    called with each outcome, in order of time, `on_outcomes` with the columns of many: in real time
    as they occur; in virtual time, or while real time is behind, some thousand rows later.
    `registry`: a Prometheus registry for the purgatory's metrics until `close`. Raises ValueError
    and TypeError for bad arguments.
    """

    def __init__(
        self,
        *,
        speed: float | None = None,
        on_outcome: Callable[[OutcomeRow], object] | None = None,
        on_outcomes: Callable[[Columns], object] | None = None,
        registry: "CollectorRegistry | None" = None,
    ) -> None:
        _check_callbacks(on_outcome=on_outcome, on_outcomes=on_outcomes)
        self._usable = True  # not yet run, and not closed
        self._kinds: dict[str, ReplaySummary] = {}
        # Kind, outcome and wait, in no summary yet.
        self._ended: Counter[tuple[str, str, int]] = Counter()
        self.seconds: float = 0.0  # of real time, for the whole run
        self._on_outcome = on_outcome
        self._on_outcomes = on_outcomes
        self._progress: Callable[[int], object] | None = None
        self._done = 0
        self._failure: BaseException | None = None  # reported by the purgatory
        self._clock = ReplayClock(speed, self._pass_on_outcomes)
        self._outcomes = OutcomeCollector(self._clock)
        self._purgatory = Purgatory(
            "replay",
            timer=self._clock.timer,
            journal=self._outcomes,
            registry=registry,
            on_error=self._fail,
            max_held=_MAX_HELD,
        )
        self._feeder = Feeder(self._purgatory, self._clock, self._outcomes, self._report_progress)

    @property
    def kinds(self) -> dict[str, ReplaySummary]:
        """The summaries, by kind."""
        self._summarize()
        return self._kinds

    @property
    def pending(self) -> int:
        """The number of waiting operations."""
        return self._purgatory.delayed

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._clock.stopped

    def stop(self) -> None:
        """Make `run` return soon; waiting operations get no outcome."""
        self._clock.stop()

    def run(
        self,
        operations: Iterable[Operation],
        events: Iterable[KeyEvent],
        progress: Callable[[int], object] | None = None,
        *,
        extensions: Iterable[Extension] | None = None,
    ) -> ReplaySummary:
        """Replay a trace, all tables in time order; return the summary over all kinds.

        `progress` gets the number of finished rows: in real time after each instant, in virtual
        time every few thousand rows. An exception of an iterator or of `on_outcome` ends the run
        and is raised. Raises OutOfOrder for a row that is earlier than the row before; readers
        check the other rules. Raises RuntimeError for a second run, and after `close`.
        """
        return self.run_columns(
            batched(operations),
            batched(events),
            progress,
            extensions=None if extensions is None else batched(extensions),
        )

    def run_columns(
        self,
        operations: Iterable[Columns],
        events: Iterable[Columns],
        progress: Callable[[int], object] | None = None,
        *,
        extensions: Iterable[Columns] | None = None,
    ) -> ReplaySummary:
        """Do as `run`, with the rows by column in batches."""
        _check_callbacks(progress=progress)
        if not self._usable:
            raise RuntimeError("this Replay has run or is closed; make another one for each run")
        self._usable = False
        start = time.perf_counter()
        self._progress = progress
        self._feeder.may_extend = extensions is not None
        try:
            self._run(Timeline(operations, extensions or (), events))
        finally:
            self.seconds = time.perf_counter() - start
        if self._failure is not None:
            raise self._failure
        return self.total()

    def _run(self, timeline: Timeline) -> None:
        for window in timeline.windows():
            if window.rows:
                first_ms, last_ms = window.span_ms()
                _check_times(first_ms, last_ms)
                self._clock.advance_to(first_ms - 1)
            if self.stopped:
                return
            end = self._feeder.feed(window)
            self._count(window.operations, end)
            if window.until_ms is not None:
                self._clock.advance_to(window.until_ms - 1)
            self._clock.drain()
            self._feeder.settle()
            self._pass_on_outcomes()
            if not self._clock.in_real_time:
                self._report_progress(window.rows)
        # The operation with the last deadline may have completed long before.
        self._clock.advance_to(self._feeder.last_due_ms, lambda: self.pending)
        self._clock.drain()
        self._pass_on_outcomes()

    def total(self) -> ReplaySummary:
        """Return the summary over all kinds."""
        total = ReplaySummary()
        for kind in self.kinds.values():
            total.add(kind)
        return total

    def _count(self, operations: Part, end: int) -> None:
        for kind, number in Counter(operations.columns[_KIND][operations.start : end]).items():
            self._kind(kind).operations += number

    def _kind(self, kind: str) -> ReplaySummary:
        return self._kinds.setdefault(kind, ReplaySummary())

    def _summarize(self) -> None:
        for (kind, outcome, waited_ms), number in self._ended.items():
            self._kind(kind).count(outcome, waited_ms, number)
        self._ended.clear()

    def _report_progress(self, rows: int) -> None:
        self._done += rows
        if self._progress is not None:
            self._progress(self._done)

    def _pass_on_outcomes(self) -> None:
        ended = self._outcomes.take()
        if not ended:
            return
        columns = outcome_columns(ended)
        self._feeder.forget(ended)
        self._ended.update(zip(columns[_KIND], columns[_OUTCOME], columns[_WAITED], strict=True))
        if len(self._ended) > _MAX_COUNTED:
            self._summarize()
        if self._on_outcomes is not None:
            _check_waits(columns)
            self._on_outcomes(columns)
        if self._on_outcome is not None:
            for row in map(OutcomeRow._make, zip(*columns, strict=True)):
                self._on_outcome(row)

    def _fail(self, error: BaseException, _: DelayedOperation) -> None:
        self._failure = self._failure or error
        self.stop()

    def close(self) -> None:
        """Close the purgatory and its timer; the summaries stay."""
        self._usable = False
        self._purgatory.close()
        self._clock.timer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has a purgatory")


def _check_callbacks(**callbacks: object) -> None:
    for name, found in callbacks.items():
        if found is not None:
            check_callback(name, found)


def _check_times(*times_ms: int) -> None:
    for time_ms in times_ms:
        if abs(time_ms) > FARTHEST_MS:
            raise TraceError(
                f"a row's time is {time_ms} ms; expected one within {FARTHEST_MS} ms of 1970"
            )


def _check_waits(columns: Columns) -> None:
    """Raise TraceError for a wait beyond its range, by many extensions."""
    longest_ms = max(columns[_WAITED])
    if longest_ms > INT64_MAX:
        op_id = columns[0][columns[_WAITED].index(longest_ms)]
        raise TraceError(
            f"operation {op_id}: waited for {longest_ms} ms, expected at most {INT64_MAX}"
        )
