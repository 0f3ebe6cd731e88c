"""Wheel tuning, compared with a real Timer that is driven through the same deadlines."""

import random
from collections import defaultdict
from datetime import timedelta
from functools import partial

import pytest

from purgatory.spark.report.content import WheelRow
from purgatory.spark.report.wheel_buckets import MAX_WAIT, WheelSize
from purgatory.spark.report.wheel_tuning import (
    MAX_TICK_MS,
    MAX_WHEEL_SIZE,
    choose_wheel,
    compare_wheels,
    wheel_sizes,
)
from purgatory.trace import Outcome
from tests.testing.journals import make_outcome, outcomes_frame
from timingwheel import InlineExecutor, ManualClock, Timer, TimerTask


@pytest.fixture(params=["in Spark", "in memory"])
def compared(request):
    """Return a function that compares wheels, as a list of rows."""
    return partial(compare_wheels, in_memory=request.param == "in memory")


def random_rows(seed: int) -> list[Outcome]:
    """Make bursts and silences, short and long timeouts, early and late ends."""
    rng = random.Random(seed)
    now = rng.choice([1_700_000_000_123, -5_000, 0])
    rows = []
    for number in range(200):
        now += rng.choice([0, 0, 1, 3, rng.randrange(100)])
        timeout = rng.choice([0, 1, 2, rng.randrange(30), rng.randrange(500), rng.randrange(5000)])
        end = rng.choice([None, now + rng.randint(0, timeout), now + timeout])
        rows.append(make_outcome(number, now, timeout, end))
    return rows


UNIT_NS = 10**5
UNITS = 10**6 // UNIT_NS  # in a millisecond


class DrivenTimer:
    """Drives a Timer through outcomes, instant by instant, and records what it did.

    Instants are in units of a tenth of a millisecond, which is all that these ticks need.
    """

    def __init__(self, rows: list[Outcome], wheel: WheelSize) -> None:
        self.wakeups = 0
        self.moves = 0
        self.late: list[float] = []
        self.stays: dict[tuple[int, int], list[int]] = {}  # of buckets: first and last instant
        self._empty_cascades = 0
        self._tasks: dict[str, TimerTask] = {}
        first = min(r.submitted_ms for r in rows)
        self._clock = ManualClock(first - 1)
        self._timer = Timer(
            tick_ms=wheel.tick_ms,
            wheel_size=wheel.wheel_size,
            clock=self._clock,
            executor=InlineExecutor(),
        )
        self._watch_moves()
        self._run(rows)
        self.cascades = self._timer.stats().cascades - self._empty_cascades

    def _watch_moves(self) -> None:
        process = self._timer._wheel_state._process_bucket

        def counted(bucket, budget, now_ns):
            if bucket.level:
                self.moves += min(budget, len(bucket))
            return process(bucket, budget, now_ns)

        self._timer._wheel_state._process_bucket = counted

    def _run(self, rows: list[Outcome]) -> None:
        starts, ends = defaultdict(list), defaultdict(list)
        for r in rows:
            starts[r.submitted_ms * UNITS].append(r)
            ends[r.at_ms * UNITS if r.outcome == "completed" else None].append(r)
        instants = sorted({*starts, *ends} - {None}, reverse=True)
        while (now := self._next(instants)) is not None:
            self._clock.advance(timedelta(microseconds=(now - self._now()) * UNIT_NS // 1000))
            self._look(now)
            self._end(ends[now])
            self._advance()
            self._start(starts[now])
            self._end(ends[now])
            self._look(now + 1)

    def _next(self, instants: list[int]) -> int | None:
        """Return the next instant at which an operation is submitted, ends, or comes due."""
        now, delay = self._now(), self._timer.delay_to_next()
        while instants and instants[-1] <= now:
            instants.pop()
        times = (
            instants[-1:] if delay is None else [*instants[-1:], now + round(delay * 1000 * UNITS)]
        )
        return min(times, default=None)

    def _now(self) -> int:
        return self._clock.now_ns() // UNIT_NS

    def _end(self, rows: list[Outcome]) -> None:
        for r in rows:
            if r.op_id in self._tasks:
                self._tasks[r.op_id].cancel()

    def _advance(self) -> None:
        self._timer.delay_to_next()  # drops an emptied bucket at the head of the queue
        queue = self._timer._wheel_state.queue.snapshot()
        due = [bucket for bucket in queue if bucket.expiration_ns <= self._clock.now_ns()]
        # An emptied bucket behind the head comes due, too, without an effect.
        self._empty_cascades += sum(bucket.level > 0 and not len(bucket) for bucket in due)
        self.wakeups += any(map(len, due))
        assert self._timer.advance_clock() == bool(due)

    def _start(self, rows: list[Outcome]) -> None:
        for r in rows:
            if r.deadline_ms > r.submitted_ms:
                delay = timedelta(milliseconds=r.deadline_ms - r.submitted_ms)
                self._tasks[r.op_id] = self._timer.schedule(delay, self._fire, r.deadline_ms)

    def _fire(self, deadline_ms: int) -> None:
        self.late.append((self._clock.now_ns() - deadline_ms * 10**6) / 10**6)

    def _look(self, now: int) -> None:
        """Record the buckets that were occupied in the previous unit."""
        for bucket in self._timer._wheel_state.queue.snapshot():
            if len(bucket):
                expiration = bucket.expiration_ns // UNIT_NS
                stay = self.stays.setdefault((bucket.level, expiration), [now - 1, now])
                stay[1] = now


@pytest.mark.parametrize("seed", range(3))
def test_does_what_a_timer_does(spark, compared, seed):
    """Cascades, moves, wake-ups, buckets and lateness are exactly those of a real Timer."""
    rows = random_rows(seed)
    candidates = wheel_sizes((0.2, 0.7, 1, 7, 100), (2, 20))
    table = compared(outcomes_frame(spark, rows), candidates, 5000)
    span = max(r.at_ms for r in rows) - min(r.submitted_ms for r in rows)
    for wheel, found in zip(candidates, table, strict=True):
        timer = DrivenTimer(rows, wheel)
        occupied = sum(last - first for first, last in timer.stays.values()) / UNITS
        assert (found.tick_ms, found.wheel_size) == (wheel.tick_ms, wheel.wheel_size)
        assert (found.cascades, found.wakeups) == (timer.cascades, timer.wakeups), wheel
        assert found.cascades_per_operation == timer.cascades / len(rows)
        assert found.moves_per_operation == timer.moves / len(rows)
        assert found.wakeups_per_second == pytest.approx(timer.wakeups * 1000 / span)
        assert found.levels == max(level for level, _ in timer.stays) + 1
        assert found.buckets == pytest.approx(occupied / span)
        assert found.lateness_ms == pytest.approx(sum(timer.late) / len(timer.late))
        assert found.max_lateness_ms == max(timer.late)


def test_worked_example(spark, compared):
    """One operation cascades two levels down, another three, as in the wheel's documentation."""
    rows = [make_outcome(0, 0, 20), make_outcome(1, 0, 25)]
    (found,) = compared(outcomes_frame(spark, rows), [WheelSize(1, 3)], 25)
    # Both start in [18..26]; at 18 one moves to level 0, the other to [24 25 26], at 24 to level 0.
    assert (found.levels, found.cascades, found.wakeups) == (3, 2, 4)
    assert found.moves_per_operation == 1.5
    assert found.buckets == (18 + 2 + 6 + 1) / 25


def test_nothing_to_place(spark, compared):
    """Without operations, or without timeouts, a wheel does nothing."""
    none = outcomes_frame(spark, [make_outcome(0, 5, 0)])
    for outcomes in (none, none.limit(0)):
        (found,) = compared(outcomes, [WheelSize(10, 20)], 0)
        assert (found.levels, found.wakeups, found.lateness_ms) == (0, 0, 0)
        assert (found.buckets, found.cascades, found.wakeups_per_second) == (0, 0, 0)


def test_the_longest_waits(spark, compared):
    """Timeouts and times at the ends of their range do not overflow."""
    far = 2**62 - MAX_WAIT
    rows = [
        make_outcome(0, 0, 2**62, 2**62),
        make_outcome(1, far, MAX_WAIT),
        make_outcome(2, -far, 2**61, -far + 1),
    ]
    corners = [
        *(WheelSize(0.01, 2), WheelSize(0.99, MAX_WHEEL_SIZE)),
        *(WheelSize(1, 2), WheelSize(3, 999), WheelSize(MAX_TICK_MS, MAX_WHEEL_SIZE)),
    ]
    table = compared(outcomes_frame(spark, rows), corners, 2**62)
    assert [found.levels for found in table][2:] == [46, 5, 1]
    assert all(found.wakeups >= 2 for found in table)


@pytest.mark.parametrize(
    ("tick_ms", "size", "named"),
    [
        (0, 20, "tick_ms is 0"),
        (0.001, 20, "tick_ms is 0.001"),
        (0.125, 20, "tick_ms is 0.125; expected hundredths"),
        (float("nan"), 20, "tick_ms is nan"),
        (float("inf"), 20, "tick_ms is inf"),
        (1, 1, "wheel_size is 1"),
        (2**32, 20, "tick_ms is 4294967296"),
    ],
)
def test_dimensions_of_no_wheel(tick_ms, size, named):
    """An impossible tick or size is named."""
    with pytest.raises(ValueError, match=named):
        wheel_sizes([tick_ms], [size])


def test_no_candidates(spark, compared):
    """An empty list of candidates is refused."""
    with pytest.raises(ValueError, match="0 wheels; expected 1 to 100"):
        compared(outcomes_frame(spark, []), [], 1)


def wheel(tick, size, wakeups, moves):
    """Make the row of a wheel."""
    return WheelRow(tick, size, 3, 1.0, 1, 0.1, moves, 1, wakeups, 0.0, tick - 1)


DEFAULT = wheel(0.2, 64, 900.0, 2.0)


def test_of_those_late_by_a_percent_the_one_that_wakes_least():
    """A coarser tick wakes less, but is too late; a larger wheel moves less."""
    rows = [DEFAULT, wheel(10, 20, 90, 1.5), wheel(10, 512, 88, 0.2), wheel(100, 512, 9, 0.1)]
    choice = choose_wheel(rows, 2000)
    assert (choice.row, choice.is_default) == (rows[2], False)
    assert choice.call == "Timer(tick_ms=10, wheel_size=512)"
    assert "88 wake-ups a second, not 900" in choice.why
    assert "at most 9 ms late, 0.45 % of the median timeout" in choice.why


def test_the_default_stays_if_no_other_is_clearly_better():
    """A tenth less work is not worth a change."""
    choice = choose_wheel([DEFAULT, wheel(1, 20, 850, 1.9), wheel(10, 20, 1, 0)], 500)
    assert choice.is_default
    assert "as good as any" in choice.why


def test_a_default_with_nothing_to_do_stays():
    """Saving a wake-up in an hour is not worth a change."""
    choice = choose_wheel([wheel(0.2, 64, 0.01, 2), wheel(10, 20, 0.0, 0)], 60_000)
    assert choice.is_default
    assert "leave it" in choice.why


def test_the_default_is_that_of_a_timer():
    """It is among the candidates, and no wheel with another tick or size counts as it."""
    timer = Timer(clock=ManualClock(), executor=InlineExecutor())
    (level, *_) = timer.levels()
    tick_ms, size = level.tick_ms, len(level.slots)
    assert WheelSize(tick_ms, size) in wheel_sizes()
    assert choose_wheel([wheel(tick_ms, size, 1, 1)], 1000).is_default
    for other in wheel_sizes():
        choice = choose_wheel([wheel(*other, 1, 1)], 1000)
        assert choice.is_default == (other == (tick_ms, size))
        assert choice.call == f"Timer(tick_ms={other.tick_ms}, wheel_size={other.wheel_size})"


def test_without_the_default_among_them():
    """The candidates may be any; with a coarse tick only, that is chosen."""
    choice = choose_wheel([wheel(1000, 64, 1, 0)], 20)
    assert choice.call == "Timer(tick_ms=1000, wheel_size=64)"
