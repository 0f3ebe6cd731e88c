"""A purgatory and `WaitModel`: operations with callbacks, and futures."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from purgatory import HeldFull, KeyedOperation, OperationCancelled
from tests.testing.purgatory_harness import PurgatoryHarness
from tests.testing.wait_machine import INDEX, KEYS, TIMES_MS, WaitMachine, future_ending, run

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


OUTCOMES = {
    (): None,
    ("complete",): "completed",
    ("complete", "expiration"): "expired",
    ("failure",): "failed",
    ("cancel",): "cancelled",
}


class ThreadSystem:
    """Calls a purgatory. A subject is an operation or a future, in turn."""

    def __init__(self):
        self.harness = PurgatoryHarness(max_held=MAX_HELD)
        self.p = self.harness.purgatory
        self.submitted = 0

    def submit(self, keys, timeout_ms, need):
        self.submitted += 1
        if self.submitted % 2:
            return self.p.defer(*keys, timeout=timeout_ms / 1000, need=need)
        op = Recorded(timeout_ms / 1000, need)
        completed = self.p.try_complete_else_watch(op, keys)
        assert completed is (op.calls == ["complete"])
        return op

    def extend(self, subject, timeout_ms):
        if isinstance(subject, Recorded):
            return self.p.extend(subject, timeout_ms / 1000)
        return subject.extend(timeout_ms / 1000)

    def complete(self, key, value, limit, hold_ms):
        return self.p.complete(key, value, limit=limit, hold=hold_ms / 1000)

    def fail(self, key, message):
        return self.p.fail(key, OSError(message))

    def cancel(self, subject):
        if subject.cancelled():
            return False  # a cancelled future says True again, as concurrent.futures has it
        return subject.cancel()

    def advance(self, ms):
        self.harness.advance(ms / 1000)

    def ending(self, subject):
        return operation_ending(subject) if isinstance(subject, Recorded) else ending(subject)

    def figures(self):
        stats = self.p.stats()
        assert len(self.harness.timer) == stats.pending + stats.held
        return stats.pending, stats.held

    def check(self):
        self.p._check()
        assert self.harness.errors == []

    def close(self):
        self.p.close()


def operation_ending(op):
    """Return the outcome that an operation was told, and its result."""
    outcome = OUTCOMES[tuple(op.calls)]
    if outcome == "completed":
        return outcome, dict(op.values) if op.need > 1 else op.values[op.by_key]
    return outcome, None if op.failure is None else str(op.failure)


def ending(future):
    """Return how a future ended."""
    if future.done() and not future.cancelled():
        error = future.exception(0)
        if isinstance(error, OperationCancelled):  # not by its own `cancel`
            return "cancelled", None
    return future_ending(future)


class Machine(WaitMachine):
    """With what only a purgatory in threads has."""

    def make_system(self):
        return ThreadSystem()

    @rule(
        key=KEYS,
        value=st.integers(0, 9),
        limit=st.one_of(st.none(), st.integers(1, 3)),
        hold_ms=st.one_of(st.just(0), TIMES_MS),
    )
    def complete(self, key, value, limit, hold_ms):
        held = self.system.p._parts.held.by_key  # with those that the timer has not removed yet
        if hold_ms and len(held) >= MAX_HELD and key not in held:
            with pytest.raises(HeldFull, match="max_held=3"):
                self.system.complete(key, value, limit, hold_ms)
        else:
            super().complete(key, value, limit, hold_ms)

    @rule(key=KEYS)
    def cancel_for_key(self, key):
        found = self.system.p.cancel_for_key(key)
        assert len(found) == len(self.model.cancel_for_key(key))

    @rule(ms=TIMES_MS)
    def advance_without_a_reaper(self, ms):
        """Due operations have not ended until the timer is advanced; no event is held longer."""
        self.model.advance(ms, expires=False)
        self.system.harness.clock.advance(ms / 1000)

    @precondition(lambda self: self.subjects)
    @rule(index=INDEX)
    def advance_to_a_deadline_without_a_reaper(self, index):
        ms = self.pick(index)[1].deadline_ms - self.model.now_ms
        if ms >= 0:
            self.advance_without_a_reaper(ms)

    def expected_figures(self):
        pending, held = super().expected_figures()
        more = len(self.system.p._parts.held) - held
        if more:  # the timer has not been advanced
            assert more > 0
            assert self.system.harness.timer.delay_to_next() == 0
        return pending, held + more


def test_it_agrees_with_the_model():
    """The purgatory and the model agree after any sequence of calls."""
    run(Machine)
