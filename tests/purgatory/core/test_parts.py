"""PurgatoryParts: without the GIL the operations of each thread have an owner of their own."""

import pytest

from purgatory import DelayedOperation
from purgatory.core.operations.operation_state import first_of
from tests.testing.purgatory_harness import PurgatoryHarness, in_thread
from timingwheel.lowlevel import LOCKED_SECTIONS


def submitted(p):
    """Return an operation that waits."""
    operation = DelayedOperation(30)
    p.try_complete_else_watch(operation, ["k"])
    return operation


@pytest.mark.skipif(not LOCKED_SECTIONS, reason="one for all threads with the GIL")
def test_each_thread_has_a_copy_of_the_owner():
    """So threads that make operations count the references to different objects."""
    p = PurgatoryHarness().purgatory
    here, other = submitted(p)._op_owner, in_thread(lambda: submitted(p)._op_owner)
    assert here is submitted(p)._op_owner
    assert here is not other
    assert first_of(here) is first_of(other) is p._parts.owner
