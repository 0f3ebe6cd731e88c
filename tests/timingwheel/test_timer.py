"""Timer: its contract, on a manual clock."""

import contextvars
import copy
import functools
import math
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone

import freezegun
import pytest

from tests.testing.eventually import eventually
from tests.testing.manual_timer import SHAPES, make
from tests.testing.recording_waiter import HANG, RecordingWaiter
from timingwheel import (
    InlineExecutor,
    ManualClock,
    Timer,
    TimerTask,
    monotonic_ms,
)
from timingwheel.clocks.duration import MAX_DELAY_S, MAX_NOW_NS
from timingwheel.lowlevel import advance_some
from timingwheel.wheel_state import DRAIN_BATCH

HOW_TO_CALL = [
    *("function", "method", "partial", "call", "partial of call"),
    *("static method", "partial of static method"),
]


@pytest.mark.parametrize("drive", [Timer.start, Timer.advance_clock])
def test_whether_a_timer_is_driven(drive):
    """Since its start, or since a thread first advanced its clock."""
    timer = Timer()
    assert not timer.driven
    drive(timer)
    assert timer.driven
    timer.close()


def test_what_runs_before_the_clock_is_advanced():
    """A task without a delay, in the thread that adds it: only delays need the other thread."""
    ran = []
    timer = Timer(clock=ManualClock(), executor=InlineExecutor())
    timer.schedule(0, ran.append, "due")
    timer.schedule(0.001, ran.append, "delayed")
    assert (ran, timer.driven) == (["due"], False)
    assert "Delays run out only when a thread advances the clock" in Timer.__doc__


def test_whether_a_reaper_holds_the_tasks():
    """From the start of its thread to the end: pending tasks may be untracked meanwhile."""
    timer = Timer()
    for call, runs in ((timer.stats, False), (timer.start, True), (timer.close, False)):
        call()
        assert {state.counters.reaper_runs for state in timer._wheels.all()} == {runs}


class TestConstruction:
    """What a timer may be made of."""

    @pytest.mark.parametrize(
        "options",
        [
            {"name": 5},
            {"tick_ms": [1]},
            {"tick_ms": True},
            {"tick_ms": "1"},
            {"wheel_size": 20.0},
            {"max_pending": 1.5},
            {"clock": 7},
            {"executor": "pool"},
            {"on_error": "log"},
        ],
    )
    def test_wrong_types(self, options):
        """A wrong type is a TypeError that names the argument."""
        with pytest.raises(TypeError, match=next(iter(options))):
            Timer(**options)

    @pytest.mark.parametrize(
        "options",
        [
            *({"tick_ms": 0}, {"tick_ms": -1}, {"max_pending": 0}),
            *({"wheel_size": 1}, {"wheel_size": 2**24 + 1}, {"wheel_size": 2**63}),
        ],
    )
    def test_bad_values(self, options):
        """A wrong value is a ValueError that names the argument."""
        with pytest.raises(ValueError, match=next(iter(options))):
            Timer(**options)

    def test_subclasses_that_compare_themselves(self):
        """With `__eq__` and no `__hash__`: timers and clocks are told apart by identity."""

        class EqualTimer(Timer):
            def __eq__(self, other):
                return True

        class EqualClock(ManualClock):
            def __eq__(self, other):
                return True

        ran, clocks = [], [EqualClock(), EqualClock()]
        timers = [EqualTimer(clock=clock, executor=InlineExecutor()) for clock in clocks]
        for timer in timers:
            timer.schedule(1, ran.append, timer)
        clocks[1].advance(1)
        assert [timer.advance_clock() for timer in timers] == [False, True]
        assert ran[0] is timers[1]
        for timer in timers:
            timer.close()

    def test_an_empty_timer_is_true(self, timer):
        """A timer is true, even if its len() is 0."""
        assert len(timer) == 0
        assert timer

    def test_repr(self, timer):
        """repr shows name, state and pending count."""
        timer.schedule(1, print)
        assert repr(timer) == "<Timer 'timer', not started, 1 pending>"
        timer.close()
        assert repr(timer) == "<Timer 'timer', closed, 0 pending>"


class TestNeverEarly:
    """Deadlines are rounded up to a tick, in any shape of wheel."""

    @pytest.mark.parametrize(("tick", "size"), SHAPES)
    @pytest.mark.parametrize("start", [0, 1, 99, 12_345_678, -5, -777_777])
    def test_not_before_its_deadline_nor_a_tick_after(self, tick, size, start):
        """A task fires in the first tick that is not before its deadline."""
        timer, clock = make(tick, size, start)
        ran = {}
        delays = (1, 2, 3, 19, 20, 21, 99, 100, 101, 399, 400, 401, 1000)
        for delay in delays:
            timer.schedule(delay / 1000, lambda d=delay: ran.setdefault(d, clock()))
        for _ in range(1101):
            clock.advance(0.001)
            timer.advance_clock()
        timer._check()
        for delay in delays:
            deadline = start + delay
            assert deadline <= ran[delay] < deadline + tick
            assert ran[delay] % tick == 0
        timer.close()

    @pytest.mark.parametrize(("tick", "size"), SHAPES)
    def test_after_a_long_pause(self, tick, size):
        """A wheel far behind the clock fires all tasks, in order."""
        timer, clock = make(tick, size)
        clock.advance(timedelta(days=400))
        ran = []
        for delay in (0.3, 0.05, 7200, 0.301):
            timer.schedule(delay, ran.append, delay)
        clock.advance(0.04)
        timer.advance_clock()
        assert ran == []
        clock.advance(1)
        timer.advance_clock()
        assert ran == [0.05, 0.3, 0.301]
        clock.advance(7200)
        timer.advance_clock()
        assert ran[-1] == 7200
        timer._check()
        timer.close()

    @pytest.mark.parametrize(("tick", "size"), SHAPES)
    def test_huge_delays(self, tick, size):
        """The longest delays are kept, cascade and fire."""
        timer, clock = make(tick, size)
        ran = []
        for delay in (MAX_DELAY_S, 10**9, timedelta.max):
            timer.schedule(delay, ran.append, delay)
        timer._check()
        assert timer.delay_to_next() <= 10**9
        clock.advance(10**9 - 1)
        timer.advance_clock()
        assert ran == []
        clock.advance(1)
        timer.advance_clock()
        assert ran == [10**9]
        clock.advance_to(MAX_NOW_NS // 10**6)
        timer.advance_clock()
        assert ran == [10**9]
        assert len(timer) == 2
        timer._check()
        timer.close()

    def test_default_clock(self):
        """No task on the real clock fires early by a truncated millisecond."""
        early = []
        timer = Timer(executor=InlineExecutor())
        for delay in range(1, 40):
            due = time.monotonic_ns() + delay * 1_000_000
            timer.schedule(delay / 1000, lambda due=due: early.append(time.monotonic_ns() < due))
        while len(early) < 39:
            timer.advance_clock(timeout=1)
        assert not any(early)
        timer.close()

    def test_order_is_by_due_tick(self, timer, clock):
        """Tasks of one drain run by due tick, whatever the order of adding."""
        ran = []
        for delay in (30, 10, 20, 8000, 1, 400, 0.02):
            timer.schedule(delay, ran.append, delay)
        clock.advance(10_000)
        timer.advance_clock()
        assert ran == sorted(ran)
        assert len(ran) == 7


class TestKafka:
    """TimerTest: tick 1, wheel size 3, no reaper."""

    def test_task_expiration(self):
        """585 tasks, advanced until nothing is due, run in the order of their ids."""
        timer, clock = make(1, 3)
        delays = [*range(5), *range(10, 100), *range(10, 100), *range(100, 500)]
        ran = []
        for delay in delays:
            timer.schedule(delay / 1000, ran.append, delay)
        while len(timer):
            clock.advance(timer.delay_to_next())
            assert timer.advance_clock(2)
        assert ran == sorted(delays)
        timer.close()


class TestRearm:
    """Adding a pending task again."""

    def test_moves_stays_one_runs_once(self, timer, clock):
        """A pending task moves to its new deadline, later or earlier, on any level."""
        ran = []
        task = TimerTask(1, lambda: ran.append(clock()))
        for delay_ms, at in ((5, 5), (8000, 8001), (30, 32)):
            task.delay_ms = delay_ms
            timer.add(task)
            assert (len(timer), task.deadline_ms) == (1, at)
            clock.advance(0.001)
            timer._check()
        clock.advance(10)
        timer.advance_clock()
        timer.advance_clock()
        assert len(ran) == 1
        assert timer.stats().fired == 1

    def test_heartbeat(self, timer, clock):
        """A task that is rescheduled in time, again and again, fires once that stops."""
        ran = []
        task = timer.schedule(1, ran.append, 1)
        for _ in range(50):
            clock.advance(0.9)
            timer.advance_clock()
            timer.add(task)
        assert ran == []
        clock.advance(1)
        timer.advance_clock()
        assert ran == [1]

    def test_after_it_came_due_and_before_it_started(self):
        """A due task that is rescheduled before it starts is pending, and does not run now."""
        clock, held, go, ran = ManualClock(), threading.Event(), threading.Event(), []
        timer = Timer(clock=clock)
        timer.schedule(1, lambda: (held.set(), go.wait(30)))
        clock.advance(1)
        timer.advance_clock()
        assert held.wait(30)
        task = timer.schedule(1, ran.append, 1)
        gone = timer.schedule(1, ran.append, 2)
        clock.advance(1)
        timer.advance_clock()
        assert (len(timer), timer.stats().executor_backlog) == (2, 2)
        timer.add(task)
        assert gone.cancel()
        assert (len(timer), timer.stats().executor_backlog) == (1, 0)
        go.set()
        clock.advance(1)
        timer.advance_clock()
        timer.close()
        assert ran == [1]

    def test_from_its_own_run(self, timer, clock):
        """A task may add itself again: it is periodic."""
        at = []

        def beat():
            at.append(clock())
            if len(at) < 4:
                timer.add(task)

        task = timer.schedule(0.5, beat)
        for _ in range(5):
            clock.advance(0.5)
            timer.advance_clock()
        assert at == [500, 1000, 1500, 2000]

    def test_to_delay_0(self, timer):
        """A pending task with no delay left runs at once, and once."""
        ran = []
        task = timer.schedule(1, ran.append, 1)
        task.delay_ms = 0
        timer.add(task)
        assert (ran, len(timer)) == ([1], 0)


class TestScheduleAt:
    """schedule_at: at a reading of the clock, or at an aware datetime."""

    def test_seconds_of_the_clock(self, timer, clock):
        """The task is due at that reading, to the nanosecond."""
        at = []
        clock.advance(100)
        task = timer.schedule_at(100.0003, lambda: at.append(clock.now_ns()))
        assert task.when() == 100.0003
        assert task.deadline_ms == 100_001
        for _ in range(5):
            clock.advance(0.0005)
            timer.advance_clock()
        assert at == [100_001_000_000]

    @pytest.mark.parametrize("when", [100, 99.9, -5, 0])
    def test_the_past_is_due_at_once(self, timer, clock, when):
        """Also a reading from before the timer was made."""
        ran = []
        clock.advance(100)
        assert timer.schedule_at(when, ran.append, 1).when() == when
        assert ran == [1]
        timer._check()

    @pytest.mark.parametrize("pauses", [(0, 0), (0, 1), (1, 0), (5, 3)])
    def test_a_pause_between_the_clocks_makes_no_datetime_early(self, monkeypatch, pauses):
        """The operating system may stop the thread after each reading, of either clock."""
        now_s = [1_000]
        before, after = pauses

        def read(pause):
            reading = now_s[0]
            now_s[0] += pause
            return reading

        timer = Timer(clock=lambda: read(after) * 1000, executor=InlineExecutor())
        monkeypatch.setattr(time, "time_ns", lambda: read(before) * 10**9)
        assert timer.schedule_at(datetime.fromtimestamp(2_000, UTC), print).when() >= 2_000

    def test_datetimes(self, timer, clock):
        """The distance from the wall clock's now counts, in any time zone."""
        ran = []
        zone = timezone(timedelta(hours=5, minutes=30))
        with freezegun.freeze_time("2026-01-01 12:00:00"):
            task = timer.schedule_at(datetime(2026, 1, 1, 17, 30, 2, 500, zone), ran.append, 1)
            past = timer.schedule_at(datetime(2026, 1, 1, 11, tzinfo=UTC), ran.append, 0)
        assert (task.when(), past.when()) == (2.0005, -3600)
        assert ran == [0]
        clock.advance(2.001)
        timer.advance_clock()
        assert ran == [0, 1]

    def test_bad_moments(self, timer):
        """A naive datetime, a date, a timedelta, a text and NaN are refused."""
        with pytest.raises(ValueError, match="time zone"):
            timer.schedule_at(datetime(2026, 1, 1), print)  # noqa: DTZ001
        for bad in (date(2026, 1, 1), timedelta(1), "noon", None, True):
            with pytest.raises(TypeError, match="when is"):
                timer.schedule_at(bad, print)
        with pytest.raises(ValueError, match="when is"):
            timer.schedule_at(math.nan, print)
        assert len(timer) == 0


class TestCallbacks:
    """What is called, and where."""

    def test_context(self, timer, clock):
        """A callback runs in the context that it was given, with its arguments."""
        variable = contextvars.ContextVar("variable", default="none")
        context = contextvars.copy_context()
        context.run(variable.set, "given")
        seen = []

        def note(*args):
            seen.append((variable.get(), *args))

        timer.schedule(1, note, 1, context=context)
        timer.add(TimerTask(1, note, context=context))
        timer.schedule(1, note, 2)
        timer.schedule_at(1, note, 3, context=context)
        clock.advance(1)
        timer.advance_clock()
        assert seen == [("given", 1), ("given",), ("none", 2), ("given", 3)]
        with pytest.raises(TypeError, match="context is"):
            timer.schedule(1, note, context={})

    def test_callbacks_of_one_context_may_overlap(self):
        """A context cannot be entered twice; tasks that share one may nest, or meet in a pool."""
        context, errors, ran = contextvars.copy_context(), [], []
        together = threading.Barrier(2, timeout=30)

        def meet():
            together.wait()
            timer.schedule(0, ran.append, 1, context=context)

        with ThreadPoolExecutor(2) as pool:
            timer = Timer(executor=pool, on_error=lambda error, _: errors.append(error))
            for _ in range(2):
                timer.schedule(0, meet, context=context)
            eventually(lambda: errors or len(ran) == 2)
            timer.close()
        inline = Timer(executor=InlineExecutor(), on_error=lambda error, _: errors.append(error))
        context.run(inline.schedule, 0, ran.append, 2, context=context)
        assert (errors, ran) == ([], [1, 1, 2])

    @pytest.mark.parametrize("how", HOW_TO_CALL)
    @pytest.mark.parametrize("kind", ["coroutine function", "generator function"])
    def test_what_never_runs_is_refused(self, timer, how, kind):
        """A timer would make the coroutine or generator and drop it: a TypeError at once."""

        async def function():
            pass

        def generator():
            yield

        body = function if kind == "coroutine function" else generator

        class Owner:
            method = body
            __call__ = body

        callback = {
            "function": body,
            "method": Owner().method,
            "partial": functools.partial(body),
            "call": Owner(),
            "partial of call": functools.partial(Owner()),
            "static method": staticmethod(body),
            "partial of static method": functools.partial(staticmethod(body)),
        }[how]
        for schedule in (timer.schedule, timer.schedule_at, timer.every):
            with pytest.raises(TypeError, match=kind):
                schedule(1, callback)
        with pytest.raises(TypeError, match=kind):
            timer.schedule_many([1], callback)
        with pytest.raises(TypeError, match=kind):
            Timer(on_error=callback)
        assert len(timer) == 0

    def test_async_generators_are_refused(self, timer):
        """A function that yields is refused whether it is async or not."""

        async def generator():
            yield

        with pytest.raises(TypeError, match="generator function"):
            timer.schedule(1, generator)

    def test_a_run_that_never_runs_is_refused_where_it_is_defined(self):
        """A subclass whose `run` is async, or a generator, cannot be defined."""

        async def run(self):
            pass

        def generate(self):
            yield

        for method in (run, generate):
            with pytest.raises(TypeError, match=r"Task\.run is a \w+ function"):
                type("Task", (TimerTask,), {"run": method})

    def test_plain_callables_are_taken(self, timer):
        """Builtins, classes, objects and bound methods run when they are called."""

        class Plain:
            def __call__(self):
                ran.append(self)

            method = staticmethod(int)

        ran = []
        for callback in (int, ran.copy, Plain(), functools.partial(ran.append, 1), Plain.method):
            timer.schedule(0, callback)
        assert len(ran) == 2


class TestCopies:
    """A copy of what has its place in a timer would share it."""

    @pytest.mark.parametrize("copy_of", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_are_refused(self, timer, clock, copy_of):
        """copy, deepcopy and pickle raise a TypeError, and nothing has changed."""

        class Task(TimerTask):
            def run(self):
                ran.append(self)

        ran = []
        tasks = [timer.schedule(5, ran.append, 1), timer.every(5, ran.append, 2), Task(5)]
        timer.add(tasks[2])
        for thing in (*tasks, timer, clock, InlineExecutor()):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                copy_of(thing)
        clock.advance(6)
        timer.advance_clock()
        assert len(ran) == 3
        timer._check()


@pytest.mark.parametrize("name", ["orders-\udcff", "\ud800"])
def test_a_name_that_cannot_be_written(name):
    """Half of a surrogate pair would spoil metrics and logs."""
    with pytest.raises(ValueError, match="name is"):
        Timer(name)


class TestCancel:
    """cancel returns True to the one call that prevented the run."""

    def test_on_every_level(self, timer, clock):
        """A task can be cancelled before it is due, also after it cascaded."""
        ran = []
        tasks = [timer.schedule(d, ran.append, d) for d in (0.001, 0.03, 0.5, 9, 200) for _ in "ab"]
        for task in tasks[::2]:
            assert task.cancel()
            timer._check()
        assert len(timer) == 5
        clock.advance(190)
        timer.advance_clock()
        assert tasks[-1].cancel()
        clock.advance(20)
        timer.advance_clock()
        assert ran == [0.001, 0.03, 0.5, 9]

    def test_by_a_task_of_the_same_tick(self, timer, clock):
        """A dispatched task that has not started can still be cancelled."""
        ran, results = [], []
        timer.schedule(1, lambda: results.append(second.cancel()))
        second = timer.schedule(1, ran.append, 1)
        clock.advance(1)
        timer.advance_clock()
        assert (results, ran, second.cancelled()) == ([True], [], True)
        assert timer.stats().cancelled == 1


class TestAdvance:
    """advance_clock, delay_to_next."""

    def test_true_only_if_a_bucket_came_due(self, timer, clock):
        """advance_clock returns True if a bucket with tasks came due, if only to cascade."""
        assert timer.advance_clock() is False
        timer.schedule(0.025, print).cancel()
        clock.advance(1)
        assert timer.advance_clock() is False
        timer.schedule(0.025, int)
        clock.advance(0.024)
        assert timer.advance_clock() is True
        assert timer.advance_clock() is False
        clock.advance(0.001)
        assert timer.advance_clock() is True

    @pytest.mark.parametrize("timeout", [-1, math.nan, math.inf, -1e-9])
    def test_bad_timeout(self, timer, timeout):
        """A bad timeout is a ValueError."""
        with pytest.raises(ValueError, match="timeout is"):
            timer.advance_clock(timeout)

    def test_waits_up_to_timeout(self, timer):
        """advance_clock waits in real time, and not less than the timeout."""
        before = time.monotonic()
        assert timer.advance_clock(timedelta(milliseconds=50)) is False
        assert time.monotonic() - before >= 0.05
        assert timer._waiters == ()

    def test_ends_early_when_a_task_comes_due(self):
        """advance_clock returns when a task comes due, added before or during the wait."""
        timer, ran = Timer(executor=InlineExecutor()), []
        timer.schedule(0.01, ran.append, 1)
        assert timer.advance_clock(300)
        threading.Timer(0.05, timer.schedule, (0.01, ran.append, 2)).start()
        while len(ran) < 2:
            assert timer.advance_clock(300)
        timer.close()

    def test_ends_early_when_a_manual_clock_is_moved(self, timer, clock):
        """A wait ends when the manual clock is moved to a due time, not before."""
        timer.schedule(10, int)
        for seconds in (5, 5):
            threading.Timer(0.02, clock.advance, (seconds,)).start()
        while len(timer):
            assert timer.advance_clock(300)
        assert clock() == 10_000

    def test_ends_when_the_timer_is_closed(self, timer):
        """Closing ends a wait: nothing can come due any more."""
        timer.schedule(10, int)
        threading.Timer(0.02, timer.close).start()
        assert timer.advance_clock(300) is False

    def test_wait_of_centuries(self):
        """A timeout beyond what the system can wait for is accepted."""
        timer = Timer(executor=InlineExecutor())
        timer.schedule(0.02, int)
        assert timer.advance_clock(MAX_DELAY_S)
        timer.close()

    def test_comes_back_although_tasks_keep_coming_due(self):
        """Tasks that come due during a drain are left to the next call."""
        now = [0]
        timer = Timer(clock=lambda: now[0], executor=InlineExecutor())
        runs = []

        def slow():
            timer.schedule(0.005, slow)
            now[0] += 10
            runs.append(now[0])

        timer.schedule(0.005, slow)
        now[0] = 5
        assert timer.advance_clock()
        assert runs == [15]
        assert timer.advance_clock()
        assert runs == [15, 25]
        timer.close()

    def test_delay_to_next(self, timer, clock):
        """delay_to_next is None, seconds, or 0.0; empty buckets do not count."""
        assert timer.delay_to_next() is None
        far = timer.schedule(0.3, int)
        near = timer.schedule(0.019, int)
        assert timer.delay_to_next() == 0.019
        near.cancel()
        assert timer.delay_to_next() == pytest.approx(0.3)
        clock.advance(0.31)
        assert timer.delay_to_next() == 0.0
        timer.advance_clock()
        assert timer.delay_to_next() is None
        assert far.done()

    def test_delay_to_next_leads_to_everything(self, timer, clock):
        """A thread that sleeps as long as it says is late by no more than a tick."""
        at = []
        for delay in (0.001, 0.019, 0.02, 0.399, 0.4, 8.123, 3600, 86_400):
            timer.schedule(delay, lambda d=delay: at.append(clock() - round(d * 1000)))
        wakes = 0
        while (delay := timer.delay_to_next()) is not None:
            clock.advance(delay)
            timer.advance_clock()
            wakes += 1
        assert at == [0] * 8
        assert wakes < 30

    def test_a_clock_below_zero(self):
        """A clock may start anywhere."""
        timer, clock = make(100, 3, -10_000)
        ran = []
        timer.schedule(0.05, lambda: ran.append(clock()))
        timer.schedule(20, lambda: ran.append(clock()))
        while len(timer):
            clock.advance(timer.delay_to_next())
            timer.advance_clock()
        assert ran == [-9900, 10_000]
        timer.close()


class TestFreezegun:
    """A timer on the default clock while time is frozen."""

    def test_frozen_time_is_honoured(self):
        """Tasks come due by the frozen clock, and only by that."""
        ran = []
        with freezegun.freeze_time("2026-01-01") as frozen:
            timer = Timer(executor=InlineExecutor())
            task = timer.schedule(3600, ran.append, 1)
            assert task.deadline_ms == monotonic_ms() + 3_600_000
            timer.advance_clock()
            assert ran == []
            assert timer.delay_to_next() <= 3600
            frozen.tick(3600)
            assert timer.advance_clock()
            while len(timer):
                assert timer.advance_clock()
            timer.close()
        assert ran == [1]

    def test_waits_end(self):
        """advance_clock and close wait in real time, frozen or not."""
        with freezegun.freeze_time("2026-01-01"):
            timer = Timer(executor=InlineExecutor())
            timer.schedule(3600, int)
            assert timer.advance_clock(0.05) is False
            timer.start()
            timer.close(cancel_pending=False, timeout=0.05)
            assert len(timer) == 0

    def test_in_the_reapers_thread(self):
        """The reaper reads the frozen clock: a task fires when that is due, not before."""
        waiter, fired = RecordingWaiter(), threading.Event()
        with freezegun.freeze_time("2026-01-01") as frozen:
            timer = Timer()
            timer.start(waiter)
            timer.schedule(3600, fired.set)
            waiter.after_a_step()
            assert not fired.is_set()
            frozen.tick(3599)
            waiter.after_a_step()
            assert not fired.is_set()
            frozen.tick(1)
            assert fired.wait(HANG)
            timer.close()


@pytest.mark.parametrize("waiter", [5, "soon", print, object()])
def test_start_with_what_is_no_waiter(timer, waiter):
    """It is refused, such as a delay; no thread starts, and the timer can be started later."""
    with pytest.raises(TypeError, match=r"waiter\.wait is None; expected a callable"):
        timer.start(waiter)
    assert not timer.running
    with timer:
        assert timer.running


def test_a_clock_advanced_by_some_batches():
    """Each call moves at most so many; the next one continues, and nothing is lost or twice."""
    clock, ran = ManualClock(), []
    timer = Timer(clock=clock, executor=InlineExecutor())
    count = 3 * DRAIN_BATCH  # in one bucket of a higher level
    for number in range(count):
        timer.schedule(60, ran.append, number)
    assert advance_some(timer, 2) is False
    clock.advance(61)
    steps = 0
    while advance_some(timer, 1):
        steps += 1
        assert ran == []  # cascading
    assert steps >= 3
    assert ran == list(range(count))
    assert advance_some(timer, 1) is False
    timer.close()
