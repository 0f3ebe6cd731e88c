"""A server's journal, resolved by the oracle, has the outcomes that the server told."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purgatory.service.protocol import (
    NOTHING,
    Complete,
    Completion,
    Extend,
    Fail,
    KeyFailure,
    Raw,
    Submit,
    TimeoutExtension,
)
from purgatory.trace import Extension as ExtensionRow
from purgatory.trace import KeyEvent, Operation
from tests.testing import oracle
from tests.testing.step_server import START_MS, RecordingSink, StepServer, operation

KEYS = st.sampled_from("pqr")
TIMES = st.sampled_from((0, 1, 2, 5, 50))
NUMBERS = st.integers(0, 20)


def submissions():
    """Draw the keys, the timeout and the need of an operation."""
    keys = st.lists(KEYS, min_size=1, max_size=3, unique=True)
    return st.tuples(st.just("submit"), keys, TIMES, st.integers(1, 2))


def requests(limits):
    """Draw a request; one in four ends a transaction, or lets time pass."""
    return st.one_of(
        submissions(),
        submissions(),
        st.tuples(st.just("complete"), KEYS, limits, TIMES),
        st.tuples(st.just("fail"), KEYS),
        st.tuples(st.just("extend"), NUMBERS, TIMES),
        st.tuples(st.just("step"), st.sampled_from((0, 0, 1, 3)), st.sampled_from((0, 300, 700))),
    )


class Run:
    """Sends a server requests, several in a transaction and transactions in a millisecond.

    Checks that nothing expires early, to the nanosecond.
    """

    def __init__(self, steps):
        self.server = StepServer(None, sink=RecordingSink())
        self.server.hello()
        self.count = 0
        self.waiting = {}  # id -> timeout, of those that the next transaction submits
        self.deadlines_ns = {}  # of those that are not extended
        for name, *values in steps:
            getattr(self, name)(*values)
        for _ in range(4):
            self.step(100)
        assert not self.server.state.purgatory.delayed
        self.server.store.close()

    def submit(self, keys, timeout_ms, need):
        need = min(need, len(keys))
        one = operation(f"op-{self.count}", *keys, timeout_ms=timeout_ms, need=need)
        self.count += 1
        self.waiting[one.op_id] = timeout_ms
        self.server.post(Submit, [one])

    def complete(self, key, limit, hold_ms):
        self.server.post(Complete, [Completion(key, Raw(NOTHING), limit, hold_ms)])

    def fail(self, key):
        self.server.post(Fail, [KeyFailure(key, "Error")])

    def extend(self, number, timeout_ms):
        self.server.post(Extend, [TimeoutExtension(f"op-{number}", timeout_ms)])
        self.waiting.pop(f"op-{number}", None)
        self.deadlines_ns.pop(f"op-{number}", None)

    def step(self, ms, us=0):
        self.transact()
        self.server.time.ms += ms
        self.server.time.us += us
        self.transact()

    def transact(self):
        now_ns = self.server.time.ns
        for op_id, timeout_ms in self.waiting.items():
            self.deadlines_ns[op_id] = now_ns + timeout_ms * 1_000_000
        self.waiting.clear()
        for outcome in self.server.step()[1]:
            if outcome.outcome == "expired":
                assert now_ns > self.deadlines_ns.get(outcome.op_id, 0)

    def resolved(self):
        """Return how the journal's operations, events and extensions resolve."""
        sink = self.server.sink
        outcomes = oracle.resolve(
            [Operation(*row[1:]) for row in sink.operations],
            [KeyEvent(*row[1:]) for row in sink.events],
            [ExtensionRow(*row[1:]) for row in sink.extensions],
        )
        return {row.op_id: row[:-1] for row in outcomes}

    def told(self):
        """Return the journal's outcomes."""
        return {row.op_id: tuple(row[1:-1]) for row in self.server.sink.outcomes}


@given(st.lists(requests(st.none()), max_size=40))
@settings(max_examples=int(os.environ.get("PURGATORY_EXAMPLES", "60")))
def test_extensions_held_and_failed_events(steps):
    """Whatever comes in one millisecond, and in which order."""
    run = Run(steps)
    assert run.resolved() == run.told()


@given(st.lists(requests(st.sampled_from((None, 1, 2))), max_size=40))
@settings(max_examples=int(os.environ.get("PURGATORY_EXAMPLES", "60")))
def test_limits(steps):
    """Where an event left operations out, or was held, the outcomes alone tell of those it reached.

    These may resolve to another outcome, and none but these.
    """
    run = Run(steps)
    has_limit = {values[0] for name, *values in steps if name == "complete" and values[1]}
    resolved, told = run.resolved(), run.told()
    keys = {row.op_id: row.keys for row in run.server.sink.operations}
    for op_id, outcome in told.items():
        if not has_limit.intersection(keys[op_id]):
            assert resolved[op_id] == outcome


def test_a_limit_that_leaves_nothing_out():
    """It is an event like others: also while it is held, until it is used up."""
    run = Run(
        [
            ("submit", ["p"], 50, 1),
            ("complete", "p", 3, 40),
            ("step", 5),
            ("submit", ["p"], 50, 1),
            ("submit", ["p"], 50, 1),
            ("submit", ["p"], 50, 1),
            ("step", 5),
            ("complete", "p", 1, 0),
        ]
    )
    assert [row.outcome for row in run.server.sink.outcomes] == ["completed"] * 4
    assert run.resolved() == run.told()


def test_a_limit_that_leaves_something_out():
    """No row of the journal's events would say that: only the outcome tells."""
    run = Run([("submit", ["p"], 50, 1), ("submit", ["p"], 50, 1), ("complete", "p", 1, 0)])
    assert run.server.sink.events == []
    assert {op_id: row[2] for op_id, row in run.told().items()} == {
        "op-0": "completed",
        "op-1": "expired",
    }


def test_an_event_without_effect():
    """It is not written, and does not make a later submission wait for the next millisecond."""
    run = Run([("complete", "p", None, 0), ("submit", ["p"], 0, 1)])
    [row] = run.server.sink.operations
    assert run.server.sink.events == []
    assert row.submitted_ms == run.server.sink.outcomes[0].at_ms


@pytest.mark.parametrize("event", [("complete", "p", None, 0), ("fail", "p")])
def test_an_expiry_closes_its_millisecond(event):
    """An event of the same key gets the next one, in which the operation had expired."""
    run = Run(
        [
            ("submit", ["p"], 5, 1),
            ("submit", ["q"], 5, 1),
            ("step", 5, 300),
            ("submit", ["p"], 50, 1),
            event,
            ("complete", "q", None, 0),
        ]
    )
    [_, _, second] = run.server.sink.operations
    [written] = run.server.sink.events
    assert (second.submitted_ms, written.at_ms) == (START_MS + 5, START_MS + 6)
    outcomes = [row.outcome for row in run.server.sink.outcomes]
    assert outcomes[:2] == ["expired", "expired"]
    assert outcomes[2] in ("completed", "failed")
    assert run.resolved() == run.told()


@pytest.mark.parametrize("ahead", [False, True])
def test_a_restart_within_the_millisecond_of_an_expiry(tmp_path, ahead):
    """The run after it stamps no event with that millisecond."""
    sink = RecordingSink()
    server = StepServer(tmp_path / "a.db", sink=sink)
    server.hello()
    server.submit(operation("a", "p", timeout_ms=5))
    server.submit(operation("b", "p"))
    server.time.ms += 4 + ahead
    assert len(server.pass_us(300)) == ahead
    server.crash()
    server.hello()
    assert server.complete("p").counts == [2 - ahead]
    assert sink.events[0].at_ms == START_MS + 4 + 2 * ahead
    server.store.close()
