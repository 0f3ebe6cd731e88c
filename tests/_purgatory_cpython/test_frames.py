"""callers_hold_lock: a look at the functions under way."""

import pytest

from _purgatory_cpython.frames import callers_hold_lock
from purgatory import Purgatory
from tests.testing.interrupts import at_every_place, handled_at
from tests.testing.purgatory_harness import Recorder
from timingwheel import InlineExecutor, ManualClock, Timer
from timingwheel.lowlevel import COMPILED


def test_callbacks_are_not_in_a_locked_section():
    """Whatever calls them, they run under no lock."""
    timer = Timer(clock=(clock := ManualClock()), executor=InlineExecutor())
    p, found = Purgatory(timer=timer), []
    p.defer("k").add_done_callback(lambda _: found.append(callers_hold_lock()))
    p.defer("k2", timeout=1).add_done_callback(lambda _: found.append(callers_hold_lock()))
    timer.every(1, lambda: found.append(callers_hold_lock()))
    p.complete("k")
    clock.advance(1)
    timer.advance_clock()
    assert found == [False, False, False]


@pytest.mark.skipif(COMPILED, reason="compiled functions are not traced")
def test_at_every_place_of_a_call():
    """The lock of an operation is found where it is held, and nowhere else."""

    def scene(at):
        operation = Recorder()

        def handler():
            is_held.append(operation._op_lock._is_owned())
            assert callers_hold_lock() is is_held[-1]

        return handled_at(at, operation.force_complete, handler)

    is_held = []
    at_every_place(scene, 4)
    assert set(is_held) == {False, True}
