"""OperationState: what operations know of their owner, and the hooks that they have by default."""

import pytest

from purgatory import DelayedOperation, Outcome
from purgatory.core.operations.operation_state import (
    OperationOwner,
    OperationState,
    first_of,
    outcome_of,
    prepare_operation,
    tell_key,
)
from tests.testing.purgatory_harness import PurgatoryHarness


class Checked(DelayedOperation):
    """An operation with a condition, of which each check is counted."""

    checks = 0

    def try_complete(self):
        self.checks += 1
        return False


@pytest.fixture
def harness():
    return PurgatoryHarness()


def test_an_outcome_is_its_name():
    """Traces and metrics have the text."""
    assert [*Outcome] == ["completed", "failed", "expired", "cancelled"]


def test_the_outcome_comes_with_the_end(harness):
    """None until then; the first one stays."""
    operation = Checked(1)
    harness.purgatory.try_complete_else_watch(operation, ["a"])
    assert outcome_of(operation) is None
    harness.advance(1)
    operation.cancel()
    assert outcome_of(operation) is Outcome.EXPIRED


def test_without_its_condition_no_check_is_made(harness):
    """Only its key could end such an operation."""
    operation = Checked(1)
    operation._op_has_condition = False
    harness.purgatory.try_complete_else_watch(operation, ["a"])
    assert not tell_key(operation, "a", None)
    assert operation.checks == 0
    operation.cancel()


def test_the_hooks_do_nothing():
    """A subclass defines those that it needs; which keys mean what it says itself."""

    class State(OperationState):
        def run(self):
            """Do nothing at the timeout."""

    state = State(1)
    calls = (state.try_complete, state.on_complete, state.on_expiration, state.on_cancel)
    assert not any(call() for call in (*calls, state.on_failure))
    with pytest.raises(NotImplementedError):
        tell_key(state, "a", 1)


def test_a_copy_of_an_owner_leads_to_the_first():
    """The purgatory's own one is its own first."""
    owner, copy = OperationOwner("name"), OperationOwner("name")
    copy.first = owner
    assert first_of(owner) is owner
    assert first_of(copy) is owner
    assert not owner.forked
    owner.check_not_forked()


def test_prepared_as_a_new_one():
    """An operation with the fields of one that was never used, attached and without a delay."""
    owner, lock = OperationOwner("name"), object()
    operation = Checked(5)
    operation.cancel()
    prepare_operation(operation, owner, lock)
    assert (operation.delay_ns, operation.deadline_ns) == (0, 0)
    assert outcome_of(operation) is None
    assert "pending" in repr(operation)
    assert (operation._op_owner, operation._op_lock, operation._op_keys) == (owner, lock, ())
