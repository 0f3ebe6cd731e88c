"""Replay: its outcomes equal those of the oracle, in virtual and in real time."""

import copy
import functools
import pickle
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from purgatory.replay.clock import ReplayClock
from purgatory.replay.engine import Replay
from purgatory.trace import Extension, KeyEvent, Operation, OutOfOrder, TraceError
from purgatory.trace.tables import EVENTS, EXTENSIONS, OPERATIONS, columns_of
from tests.testing.oracle import full_traces, resolve, traces
from tests.testing.replays import operation, replayed
from timingwheel import Timer

TIMES = {table.name: table.time_column for table in (OPERATIONS, EVENTS, EXTENSIONS)}


def in_small_windows(trace, rows):
    """The outcomes of a replay that takes a few rows of each table at a time; in order of id."""
    outcomes = []
    tables = [
        [columns_of(table[place : place + rows]) for place in range(0, len(table), rows)]
        for table in trace
    ]
    with Replay(on_outcome=outcomes.append) as replay:
        replay.run_columns(*tables[:2], extensions=tables[2] if len(tables) > 2 else None)
        replay._purgatory._check()
        assert replay.pending == 0
    return sorted(outcomes)


@settings(max_examples=400)
@given(traces())
def test_equals_the_oracle(trace):
    """Ties, shared keys, need=n, zero timeouts, reused keys: all as the rules say."""
    operations, events = trace
    assert replayed(operations, events) == resolve(operations, events)


@settings(max_examples=400, deadline=None)
@given(full_traces())
def test_equals_the_oracle_with_extensions_held_and_failed_events(trace):
    """Chains of extensions, replaced holds, failures: several of each at one instant, too."""
    assert replayed(*trace) == resolve(*trace)


@settings(max_examples=400, deadline=None)
@given(traces() | full_traces(), st.integers(1, 4))
def test_equals_the_oracle_in_windows_of_any_size(trace, rows):
    """Operations that end in their window, and those that wait for longer, as the rules say."""
    assert in_small_windows(trace, rows) == sorted(resolve(*trace))


@settings(max_examples=50, deadline=None)
@given(full_traces(start_ms=1_357_000_000_000))
def test_extensions_at_the_times_of_today(trace):
    """Also in real time."""
    real = replayed(*trace, speed=1e6)
    assert [row._replace(lateness_ms=0) for row in real] == resolve(*trace)


@settings(max_examples=50)
@given(traces(start_ms=1_357_000_000_000))
def test_at_the_times_of_today(trace):
    """Unix milliseconds, far from the zero of the wheel."""
    operations, events = trace
    assert replayed(operations, events) == resolve(operations, events)


@settings(max_examples=50)
@given(traces(start_ms=-200_000))
def test_before_the_epoch(trace):
    """Times may be negative."""
    operations, events = trace
    assert replayed(operations, events) == resolve(operations, events)


@settings(max_examples=20, deadline=None)
@given(traces())
def test_real_time_gives_the_same_outcomes(trace):
    """Only the lateness is that of the real run."""
    operations, events = trace
    real = replayed(operations, events, speed=1e6)
    assert [row._replace(lateness_ms=0) for row in real] == resolve(operations, events)
    assert all(row.lateness_ms >= 0 for row in real)


def test_summaries_per_kind():
    """Counts and waits of each kind, and of all."""
    rows = [operation("a", kind="x"), operation("b", kind="y", keys=("z",))]
    with Replay() as replay:
        total = replay.run(rows, [KeyEvent("k", 4)])
    assert (total.operations, total.completed, total.expired, total.pending) == (2, 1, 1, 0)
    assert replay.kinds["x"].waits.quantile(0.5) == 4
    assert replay.kinds["y"].waits.quantile(0.5) == 10


@pytest.mark.parametrize("speed", [None, 1e9])
def test_stop_leaves_the_rest_waiting(speed):
    """Stopping in the middle: what was done is counted, what waits has no outcome."""
    rows = [operation(f"o{place}", place, 10**9, (f"k{place}",)) for place in range(10_000)]
    events = [KeyEvent("k0", 5)]
    outcomes = []
    with Replay(on_outcome=outcomes.append, speed=speed) as replay:
        total = replay.run(rows, events, lambda done: replay.stop() if done > 50 else None)
    assert [outcome.op_id for outcome in outcomes] == ["o0"]
    assert total.operations == total.pending + 1
    assert 50 <= total.operations < (60 if speed else 2_000)


def test_stop_ends_a_wait_in_real_time():
    """A replay that would take days ends when asked to."""
    rows = [operation("a"), operation("b", 10**9)]
    with Replay(speed=1) as replay:
        replay.run(rows, [], lambda done: replay.stop())
    assert replay.seconds < 60


def test_in_real_time_the_run_ends_with_the_last_outcome():
    """The deadline of an operation that completed is waited for no longer."""
    hours = 10 * 3_600_000
    operations = [Operation("a", "k", 0, hours, ("key",)), Operation("b", "k", 0, 50, ("x",))]
    with Replay(speed=1.0) as replay:
        total = replay.run(operations, [KeyEvent("key", 1)])
    assert (total.completed, total.expired) == (1, 1)


def test_a_batch_may_be_empty():
    """As from a table whose rows were filtered batch by batch."""
    none = ([], [], [], [], [])
    one = (["a"], ["k"], [0], [5], [("key",)], [1])
    with Replay() as replay:
        total = replay.run_columns([(*none, []), one, (*none, [])], [none[:4]])
    assert total.expired == 1


def test_the_wheel_is_drained_once_a_window(monkeypatch):
    """Not at each instant: that took half of the time of a replay."""
    drains = []
    drain = ReplayClock.drain
    monkeypatch.setattr(ReplayClock, "drain", lambda clock: (drains.append(1), drain(clock)))
    rows = [operation(f"o{n}", n, 5 * (n % 2), (f"k{n}",)) for n in range(10_000)]
    events = [KeyEvent(f"k{n}", n + 2) for n in range(10_000)]
    with Replay() as replay:
        total = replay.run(rows, events)
    assert (total.completed, total.expired) == (5_000, 5_000)
    assert len(drains) < 30


def test_summaries_are_exact_during_a_run():
    """Of all outcomes that were passed on, also of more different waits than are kept apart."""
    rows = [operation(f"o{n}", n, n, (f"k{n}",), kind="even" * (n % 2)) for n in range(20_000)]
    told, seen = [], []

    def compare(_):
        ended = sum(kind.ended for kind in replay.kinds.values())
        seen.append((ended, len(told)))

    with Replay(on_outcome=told.append) as replay:
        total = replay.run(rows, [], compare)
    assert len(seen) > 5
    assert all(ended == passed_on for ended, passed_on in seen)
    assert total.expired == 20_000
    assert replay.kinds["even"].waits.quantile(1) == 19_990  # four digits


def test_in_real_time_the_clock_is_advanced_when_something_is_due(monkeypatch):
    """And not at the other instants."""
    advanced = []
    advance = Timer.advance_clock
    monkeypatch.setattr(Timer, "advance_clock", lambda timer: (advanced.append(1), advance(timer)))
    rows = [operation(f"o{n}", n, 10**6, (f"k{n}",)) for n in range(2_000)]
    events = [KeyEvent(f"k{n}", n + 2) for n in range(2_000)]
    with Replay(speed=1e9) as replay:
        assert replay.run(rows, events).completed == 2_000
    assert len(advanced) < 200


def test_in_real_time_an_outcome_is_told_when_it_occurs():
    """Also if no row comes for long: the hour after it is not waited for."""
    told = []

    def on_outcome(row):
        told.append(row)
        replay.stop()

    with Replay(speed=1000, on_outcome=on_outcome) as replay:
        replay.run([operation("a", 0, 5), operation("b", 3_600_000_000)], [])
    assert [(row.op_id, row.outcome, row.at_ms) for row in told] == [("a", "expired", 5)]
    assert replay.seconds < 60


@pytest.mark.parametrize("speed", [0, -1, float("nan"), float("inf")])
def test_bad_speed(speed):
    """A speed is a finite number above 0."""
    with pytest.raises(ValueError, match="speed"):
        Replay(speed=speed)


@pytest.mark.parametrize("speed", ["x", True, 0.5j, []])
def test_a_speed_is_a_number(speed):
    """The error names the value and what was expected."""
    with pytest.raises(TypeError, match=r"speed is .*; expected a number or None"):
        Replay(speed=speed)


@pytest.mark.parametrize("name", ["on_outcome", "on_outcomes", "progress"])
def test_a_callback_is_a_function_that_runs(name):
    """It is refused before the run, not at the first outcome, or never."""

    async def later(_):
        pass

    def generate(_):
        yield

    def use(callback):
        if name == "progress":
            Replay().run([], [], callback)
        else:
            Replay(**{name: callback})

    with pytest.raises(TypeError, match=f"{name} is 5; expected a callable"):
        use(5)
    with pytest.raises(TypeError, match=f"{name} is .*, a coroutine function"):
        use(functools.partial(later))
    with pytest.raises(TypeError, match=f"{name} is .*, a generator function"):
        use(generate)


def test_a_replay_runs_once():
    """A second run would begin in the time, and with the operations, of the first."""
    with Replay() as replay:
        replay.run([operation()], [])
        with pytest.raises(RuntimeError, match="make another one for each run"):
            replay.run([operation()], [])
    closed = Replay()
    closed.close()
    with pytest.raises(RuntimeError, match="make another one for each run"):
        closed.run([operation()], [])


@pytest.mark.parametrize("times", [[float("nan")], [1, float("nan"), 2], [float("nan"), 1]])
def test_a_time_that_is_no_number_is_refused(times):
    """In a row made directly, which nothing has checked: the merge would not end."""
    with Replay() as replay, pytest.raises(OutOfOrder, match="nan"):
        replay.run([operation(f"o{n}", at, 5) for n, at in enumerate(times)], [])


def test_an_error_of_on_outcome_ends_the_run():
    """The exception, of a full disk say, is raised."""

    def fail(outcome):
        raise OSError("disk full")

    with Replay(on_outcome=fail) as replay, pytest.raises(OSError, match="disk full"):
        replay.run([operation()], [KeyEvent("k", 1)])


def test_metrics_are_shown_until_closed():
    """The registry has the counters of the run while the replay is open."""
    registry = CollectorRegistry()
    labels = {"name": "replay", "outcome": "completed"}
    with Replay(registry=registry) as replay:
        replay.run([operation()], [KeyEvent("k", 1)])
        assert registry.get_sample_value("purgatory_operations_total", labels) == 1
    assert registry.get_sample_value("purgatory_operations_total", labels) is None


def test_memory_follows_what_is_pending():
    """A trace ten times as long takes no more memory when no more is pending."""

    def peak(count):
        rows = (operation(f"o{n}", n, 5, (f"k{n}",)) for n in range(count))
        events = (KeyEvent(f"k{n}", n + n % 7) for n in range(count))
        ordered = sorted(events, key=lambda event: event.at_ms)
        tracemalloc.start()
        with Replay() as replay:
            replay.run(rows, iter(ordered))
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    peak(100)
    assert peak(20_000) < 2 * peak(2_000) + 200_000


@pytest.mark.parametrize("speed", [None, 1e300])
@pytest.mark.parametrize("time_ms", [2**60 + 1, -(2**60) - 1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("table", range(3))
def test_times_that_no_timer_counts_are_refused(speed, time_ms, table):
    """In each table, with a clear error: so a trace never spans more than 64 bits hold."""
    near = [operation("o", 0, 5)], [KeyEvent("z", 0)], [Extension("o", 0, 5)]
    far = [operation("o", time_ms, 0)], [KeyEvent("z", time_ms)], [Extension("o", time_ms, 0)]
    tables = [far[n] if n == table else near[n] for n in range(3)]
    with Replay(speed=speed) as replay, pytest.raises(TraceError, match=f"time is {time_ms} ms"):
        replay.run(tables[0], tables[1], extensions=tables[2])


@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize("table", ["operations", "events", "extensions"])
def test_a_row_out_of_order_is_refused(table, rows):
    """Within a batch and between two: its outcomes would be wrong."""
    times = [0, 7, 6, 9]
    tables = {
        "operations": [operation(f"o{n}", n, 5) for n in range(4)],
        "events": [KeyEvent("z", n) for n in range(4)],
        "extensions": [Extension("o1", n, 5) for n in range(4)],
    }
    tables[table] = [
        row._replace(**{TIMES[table]: at}) for row, at in zip(tables[table], times, strict=True)
    ]
    with pytest.raises(OutOfOrder, match=rf"^{table}, row 3: .*{TIMES[table]} 6 follows 7$"):
        in_small_windows(tuple(tables.values()), rows)


@pytest.mark.parametrize("timeout_ms", [2**61, 2**62 + 5, 2**63 - 1])
def test_deadlines_may_be_later(timeout_ms):
    """Up to the last of 64 bits: in windows of one row, held, extended, and from the first time."""
    start = -(2**60)
    rows = [
        operation("first", start, timeout_ms),
        operation("held", start + 1, 5, ("held",)),
        operation("extended", start + 2, 5),
        operation("late", 2**60, 2**62, ("late",)),
    ]
    events = [KeyEvent("held", start, timeout_ms), KeyEvent("late", 2**60), KeyEvent("z", 2**60)]
    extensions = [Extension("extended", start + 3, timeout_ms), Extension("first", 2**60, 7)]
    for count in (1, 9):
        found = in_small_windows((rows, events, extensions), count)
        assert found == sorted(resolve(rows, events, extensions))
    assert in_small_windows((rows, events), 1) == sorted(resolve(rows, events))


def test_a_wait_beyond_64_bits_is_refused():
    """Where a table is to hold it; a summary counts it."""
    rows, extensions = [operation("o", -(2**60), 2**61)], [Extension("o", 0, 2**63 - 1)]
    with Replay(on_outcomes=lambda _: None) as replay:
        with pytest.raises(TraceError, match=f"operation o: waited for {2**63 - 1 + 2**60} ms"):
            replay.run(rows, [], extensions=extensions)
    with Replay() as replay:
        assert replay.run(rows, [], extensions=extensions).expired == 1


@pytest.mark.parametrize("copy_of", [copy.copy, copy.deepcopy, pickle.dumps])
def test_refuses_copies(copy_of):
    """A copy would run in the same purgatory."""
    with Replay() as replay, pytest.raises(TypeError, match="cannot be copied or pickled"):
        copy_of(replay)
