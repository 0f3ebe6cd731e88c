"""Turn: which thread uses the connection of a client."""

import threading
from pathlib import Path

from purgatory.service.client import turn as turn_module
from purgatory.service.client.turn import Turn
from tests.testing.interrupts import GROUND_FLOOR, TIMINGWHEEL, at_every_place, interrupted_at
from tests.testing.purgatory_harness import HANG


def take_in_thread(turn):
    """Return a thread that takes the turn, and the event that lets it go on; once it waits."""
    taken, go_on = threading.Event(), threading.Event()

    def run():
        turn.take()
        taken.set()
        go_on.wait(HANG)
        turn.give_up()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, taken, go_on


def wait_for_waiting(turn):
    """Return when a thread waits for the turn."""
    while True:
        with turn._changed:
            if turn._waiting:
                return


def test_one_thread_at_a_time():
    """The thread that has it cannot take it again."""
    turn = Turn()
    assert turn.try_take()
    assert turn.is_mine()
    assert not turn.try_take()
    turn.give_up()
    assert not turn.is_mine()
    assert turn.try_take()


def test_a_thread_that_waits_goes_first():
    """A caller does not take it again before that thread has had it."""
    turn = Turn()
    assert turn.try_take()
    thread, taken, go_on = take_in_thread(turn)
    wait_for_waiting(turn)
    with turn._changed:  # so that the thread cannot wake up meanwhile
        turn.give_up()
        assert not turn.try_take()
    assert taken.wait(HANG)
    go_on.set()
    thread.join(HANG)
    assert turn.try_take()


def test_an_interrupt_of_the_thread_that_gives_it_up():
    """Wherever it comes: that thread gives it up again if it still has it, and others go on."""
    folders = (TIMINGWHEEL, GROUND_FLOOR, str(Path(turn_module.__file__).parent))
    at_every_place(lambda place: interrupted_give_up(place, folders), at_least=2)


def interrupted_give_up(place, folders):
    """Give up a turn for which another thread waits; interrupted, again."""
    turn = Turn()
    assert turn.try_take()
    thread, taken, go_on = take_in_thread(turn)
    wait_for_waiting(turn)
    interrupter = interrupted_at(place, turn.give_up, folders)
    if turn.is_mine():
        turn.give_up()
    assert taken.wait(HANG), interrupter.where
    go_on.set()
    thread.join(HANG)
    return interrupter
