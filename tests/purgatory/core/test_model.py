"""A purgatory and a naive model, driven by hypothesis; all invariants after each step."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from purgatory import OperationCancelled, OperationExpired, PurgatoryClosed
from tests.testing.purgatory_harness import PurgatoryHarness, Recorder

KEYS = st.integers(0, 5)
TIMEOUTS_MS = st.one_of(
    st.just(0), st.integers(1, 50), st.integers(51, 5000), st.integers(5001, 4 * 3600 * 1000)
)
CALLS = {
    "completed": ["complete"],
    "expired": ["complete", "expiration"],
    "cancelled": ["cancel"],
}


class Waiting:
    """Model of one operation or future: what it waits for, and how it ended."""

    def __init__(self, subject, keys, deadline_ms, need):
        self.subject = subject
        self.keys = set(keys)
        self.deadline_ms = deadline_ms
        self.need = need  # 0: an operation with a condition
        self.values = {}
        self.ready = False
        self.outcome = None


class Model(RuleBasedStateMachine):
    """Model of a purgatory, with its own time; it searches all pending operations each time."""

    tick_ms = 1
    wheel_size = 20

    @initialize()
    def make(self):
        self.harness = PurgatoryHarness(tick_ms=self.tick_ms, wheel_size=self.wheel_size)
        self.purgatory = self.harness.purgatory
        self.now_ms = 0
        self.all = []
        self.closed = False

    def pending(self):
        return [waiting for waiting in self.all if waiting.outcome is None]

    def add(self, subject, keys, timeout_ms, need):
        deadline_ms = -(-(self.now_ms + timeout_ms) // self.tick_ms) * self.tick_ms
        waiting = Waiting(subject, keys, deadline_ms, need)
        self.all.append(waiting)
        return waiting

    @precondition(lambda self: not self.closed)
    @rule(keys=st.lists(KEYS, min_size=1, max_size=5), timeout_ms=TIMEOUTS_MS, ready=st.booleans())
    def submit(self, keys, timeout_ms, ready):
        ready = ready and timeout_ms % 3 == 0
        op = Recorder(timeout_ms / 1000, ready=ready)
        assert self.purgatory.try_complete_else_watch(op, keys) is ready
        waiting = self.add(op, keys, timeout_ms, 0)
        if ready:
            waiting.outcome = "completed"
        elif timeout_ms == 0:
            waiting.outcome = "expired"

    @precondition(lambda self: not self.closed)
    @rule(
        keys=st.lists(KEYS, min_size=1, max_size=5),
        timeout_ms=TIMEOUTS_MS,
        need=st.integers(1, 5),
    )
    def defer(self, keys, timeout_ms, need):
        need = min(need, len(set(keys)))
        future = self.purgatory.defer(*keys, timeout=timeout_ms / 1000, need=need)
        waiting = self.add(future, keys, timeout_ms, need)
        if timeout_ms == 0:
            waiting.outcome = "expired"

    @rule(index=st.integers(0, 10**6))
    def come_true(self, index):
        waits = [waiting for waiting in self.pending() if not waiting.need]
        if waits:
            waits[index % len(waits)].ready = True
            waits[index % len(waits)].subject.ready = True

    def check(self, waiting):
        if waiting.ready:
            waiting.outcome = "completed"
        return waiting.ready

    def count(self, waiting, key, value):
        if not waiting.need:
            return self.check(waiting)
        waiting.values.setdefault(key, value)
        if len(waiting.values) == waiting.need:
            waiting.outcome = "completed"
        return waiting.outcome is not None

    @rule(key=KEYS)
    def check_and_complete(self, key):
        if self.closed:
            with pytest.raises(PurgatoryClosed):
                self.purgatory.check_and_complete(key)
            return
        watching = [waiting for waiting in self.pending() if key in waiting.keys]
        expected = sum(self.check(waiting) for waiting in watching if not waiting.need)
        assert self.purgatory.check_and_complete(key) == expected

    @rule(key=KEYS, value=st.integers())
    def complete(self, key, value):
        if self.closed:
            with pytest.raises(PurgatoryClosed):
                self.purgatory.complete(key, value)
            return
        watching = [waiting for waiting in self.pending() if key in waiting.keys]
        expected = sum(self.count(waiting, key, value) for waiting in watching)
        assert self.purgatory.complete(key, value) == expected

    @precondition(lambda self: not self.closed)
    @rule(key=KEYS)
    def cancel_for_key(self, key):
        watching = [waiting for waiting in self.pending() if key in waiting.keys]
        for waiting in watching:
            waiting.outcome = "cancelled"
        cancelled = self.purgatory.cancel_for_key(key)
        assert len(cancelled) == len(watching)
        operations = [waiting.subject for waiting in watching if not waiting.need]
        assert [op for op in cancelled if isinstance(op, Recorder)] == operations

    @precondition(lambda self: self.all)
    @rule(index=st.integers(0, 10**6), force=st.booleans())
    def end_one(self, index, force):
        waiting = self.all[index % len(self.all)]
        expected = waiting.outcome is None
        if force and not waiting.need:
            assert waiting.subject.force_complete() is expected
            waiting.outcome = waiting.outcome or "completed"
        elif waiting.need:
            cancelled = waiting.subject.cancel()
            assert cancelled is (expected or waiting.subject.cancelled())
            waiting.outcome = waiting.outcome or "cancelled"
        else:
            assert waiting.subject.cancel() is expected
            waiting.outcome = waiting.outcome or "cancelled"

    @rule(ms=st.one_of(st.integers(0, 30), st.integers(31, 10000), st.integers(10001, 10**7)))
    def advance(self, ms):
        self.now_ms += ms
        for waiting in self.pending():
            if waiting.deadline_ms <= self.now_ms:
                waiting.outcome = "expired"
        self.harness.advance(ms / 1000)

    @precondition(lambda self: len(self.all) > 15 and not self.closed)
    @rule()
    def close(self):
        self.closed = True
        for waiting in self.pending():
            waiting.outcome = "cancelled"
        self.purgatory.close()

    @invariant()
    def agree(self):
        self.purgatory._check()
        pending = self.pending()
        stats = self.purgatory.stats()
        assert stats.pending == self.purgatory.delayed == len(pending) == len(self.harness.timer)
        assert stats.watch_entries == self.purgatory.watched == sum(len(w.keys) for w in pending)
        assert stats.watched_keys == len(set().union(*[waiting.keys for waiting in pending]))
        outcomes = [waiting.outcome for waiting in self.all]
        assert stats.completed == outcomes.count("completed")
        assert stats.expired == outcomes.count("expired")
        assert stats.cancelled == outcomes.count("cancelled")
        assert self.harness.errors == []
        for waiting in self.all:
            (self.future_agrees if waiting.need else self.operation_agrees)(waiting)

    @staticmethod
    def operation_agrees(waiting):
        assert waiting.subject.calls == CALLS.get(waiting.outcome, [])

    @staticmethod
    def future_agrees(waiting):
        future = waiting.subject
        assert future.done() is (waiting.outcome is not None)
        if waiting.outcome == "completed":
            values = waiting.values
            expected = values if waiting.need > 1 else next(iter(values.values()))
            assert future.result(0) == expected
        elif waiting.outcome == "expired":
            assert isinstance(future.exception(0), OperationExpired)
        elif waiting.outcome == "cancelled" and not future.cancelled():
            assert isinstance(future.exception(0), OperationCancelled)


@pytest.mark.parametrize("tick_ms", [1, 100])
@pytest.mark.parametrize("wheel_size", [3, 20, 512])
def test_it_agrees_with_the_model(tick_ms, wheel_size):
    """The purgatory and the model agree after any sequence of calls."""

    class Machine(Model):
        pass

    Machine.tick_ms, Machine.wheel_size = tick_ms, wheel_size
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
