"""A purgatory and `WaitModel`, driven by hypothesis: extend, fail, limit and hold."""

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

from purgatory import HeldFull, KeyedOperation, OperationCancelled, OperationExpired
from tests.testing.purgatory_harness import PurgatoryHarness
from tests.testing.wait_model import WaitModel

KEYS = st.integers(0, 3)
TIMES_MS = st.one_of(st.integers(0, 5), st.integers(6, 300), st.integers(301, 10**6))
INDEX = st.integers(0, 10**6)
MAX_HELD = 3


class Recorded(KeyedOperation):
    """Records its callbacks."""

    def __init__(self, timeout, need):
        super().__init__(timeout, need)
        self.calls = []

    def on_complete(self):
        self.calls.append("complete")

    def on_expiration(self):
        self.calls.append("expiration")

    def on_failure(self):
        self.calls.append("failure")

    def on_cancel(self):
        self.calls.append("cancel")


CALLS = {
    None: [],
    "completed": ["complete"],
    "expired": ["complete", "expiration"],
    "failed": ["failure"],
    "cancelled": ["cancel"],
}


class Machine(RuleBasedStateMachine):
    """Calls the same methods of both, and compares."""

    @initialize()
    def make(self):
        self.harness = PurgatoryHarness(max_held=MAX_HELD)
        self.p = self.harness.purgatory
        self.model = WaitModel()
        self.subjects = []  # an operation or a future for each wait of the model

    def pick(self, index):
        place = index % len(self.subjects)
        return self.subjects[place], self.model.waits[place]

    @rule(
        keys=st.lists(KEYS, min_size=1, max_size=3, unique=True),
        timeout_ms=TIMES_MS,
        need=st.integers(1, 3),
        deferred=st.booleans(),
    )
    def submit(self, keys, timeout_ms, need, deferred):
        need = min(need, len(keys))
        wait = self.model.submit(tuple(keys), timeout_ms, need)
        completed = wait.outcome == "completed"
        if not timeout_ms:
            self.model.expire(wait)
        if deferred:
            self.subjects.append(self.p.defer(*keys, timeout=timeout_ms / 1000, need=need))
        else:
            op = Recorded(timeout_ms / 1000, need)
            assert self.p.try_complete_else_watch(op, keys) is completed
            self.subjects.append(op)

    @precondition(lambda self: self.subjects)
    @rule(index=INDEX, timeout_ms=TIMES_MS)
    def extend(self, index, timeout_ms):
        subject, wait = self.pick(index)
        expected = self.model.extend(wait, timeout_ms)
        if not timeout_ms:
            self.model.expire(wait)
        if isinstance(subject, Recorded):
            assert self.p.extend(subject, timeout_ms / 1000) is expected
        else:
            assert subject.extend(timeout_ms / 1000) is expected

    @rule(
        key=KEYS,
        value=st.integers(),
        limit=st.one_of(st.none(), st.integers(1, 3)),
        hold_ms=st.one_of(st.just(0), TIMES_MS),
    )
    def complete(self, key, value, limit, hold_ms):
        held = self.p._held.by_key  # with those that the timer has not removed yet
        if hold_ms and len(held) >= MAX_HELD and key not in held:
            with pytest.raises(HeldFull, match="max_held=3"):
                self.p.complete(key, value, limit=limit, hold=hold_ms / 1000)
            return
        expected = self.model.complete(key, value, limit, hold_ms)
        assert self.p.complete(key, value, limit=limit, hold=hold_ms / 1000) == expected

    @rule(key=KEYS)
    def fail(self, key):
        error = OSError(key)
        assert self.p.fail(key, error) == self.model.fail(key, error)

    @rule(key=KEYS)
    def cancel_for_key(self, key):
        assert len(self.p.cancel_for_key(key)) == len(self.model.cancel_for_key(key))

    @precondition(lambda self: self.subjects)
    @rule(index=INDEX)
    def cancel(self, index):
        subject, wait = self.pick(index)
        if isinstance(subject, Recorded):
            assert subject.cancel() is self.model.cancel(wait)
        else:
            expected = self.model.cancel(wait) or subject.cancelled()
            assert subject.cancel() is expected

    @rule(ms=TIMES_MS)
    def advance(self, ms):
        self.model.advance(ms)
        self.harness.advance(ms / 1000)

    @rule(ms=TIMES_MS)
    def advance_without_a_reaper(self, ms):
        """Due operations have not ended until the timer is advanced; no event is held longer."""
        self.model.advance(ms, expires=False)
        self.harness.clock.advance(ms / 1000)

    @precondition(lambda self: self.subjects)
    @rule(index=INDEX, before=st.booleans())
    def advance_to_a_deadline(self, index, before):
        ms = self.pick(index)[1].deadline_ms - self.model.now_ms
        if ms >= 0:
            (self.advance_without_a_reaper if before else self.advance)(ms)

    @invariant()
    def agree(self):
        self.p._check()
        pending, stats = self.model.pending(), self.p.stats()
        assert stats.pending == len(pending)
        assert stats.watch_entries == sum(len(wait.keys) for wait in pending)
        held = len(self.model.held())
        assert stats.held == len(self.p._held) >= held
        if stats.held > held:  # the timer has not been advanced
            assert self.harness.timer.delay_to_next() == 0
        assert len(self.harness.timer) == stats.pending + stats.held
        for outcome in ("completed", "failed", "expired", "cancelled"):
            assert getattr(stats, outcome) == self.model.count(outcome), outcome
        assert self.harness.errors == []
        for subject, wait in zip(self.subjects, self.model.waits, strict=True):
            (self.operation_agrees if isinstance(subject, Recorded) else self.future_agrees)(
                subject, wait
            )

    @staticmethod
    def operation_agrees(op, wait):
        assert op.calls == CALLS[wait.outcome]
        if wait.outcome == "completed":
            assert op.by_key == wait.by_key
            assert op.values == wait.values
        assert op.failure is wait.error

    @staticmethod
    def future_agrees(future, wait):
        assert future.done() is (wait.outcome is not None)
        if wait.outcome == "completed":
            assert future.result(0) == wait.result
        elif wait.outcome == "failed":
            assert future.exception(0) is wait.error
        elif wait.outcome == "expired":
            assert isinstance(future.exception(0), OperationExpired)
        elif wait.outcome == "cancelled" and not future.cancelled():
            assert isinstance(future.exception(0), OperationCancelled)


def test_it_agrees_with_the_model():
    """The purgatory and the model agree after any sequence of calls."""
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
