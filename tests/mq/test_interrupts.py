"""KeyboardInterrupt wherever it can come: nothing hangs, no wake-up is lost.

Compiled code is not traced, and not interrupted: the interpreted modules around it are.
"""

import os
import random
import threading
from functools import partial

import pytest

import mq
from _purgatory_cpython.atomicity import COMPILED
from tests.mq.interrupted_scenes import SCENES
from tests.testing.leaks import HANG_TIMEOUT_S, assert_terminates, close_all, new_context
from tests.testing.mq_interrupts import PlaceInterrupter, TimerInterrupter
from tests.testing.sockets import drain

# How many interrupts a timer aims at random; if set, every place is interrupted too, and not some.
INTERRUPTS = int(os.environ.get("MQ_INTERRUPTS", "300"))
STRIDE = 1 if "MQ_INTERRUPTS" in os.environ else 23

CASES = [(scene, kind) for scene, kinds in SCENES.items() for kind in kinds]


def sweep(scene):
    """Play a scene again and again, interrupted one place later each time, until it is not."""
    for place in range(2000):
        if not scene(PlaceInterrupter(place)):
            assert COMPILED or place > 3, "nothing was traced"
            return
    pytest.fail("the scene never ended")


def linked(ctx, one, two):
    """Two connected sockets that know of each other."""
    bound, connecting = ctx.socket(one), ctx.socket(two)
    bound.bind("inproc://a")
    connecting.connect("inproc://a")
    bound.getsockopt(mq.EVENTS)
    return bound, connecting


@pytest.mark.parametrize("parts", [1, 3])
def test_interrupted_send(parts):
    """ "KeyboardInterrupt between flush() false and the signal loses it for good": not here.

    The receiver sleeps when a send is interrupted, at every place there is; the next send wakes it,
    and it receives whole messages only, in order.
    """

    def scene(interrupter):
        ctx = new_context()
        pull, push = linked(ctx, mq.PULL, mq.PUSH)
        received = []

        def receive():
            while not received or received[-1] != [b"last"]:
                received.append(pull.recv_multipart())

        thread = threading.Thread(target=receive)
        thread.start()
        raised = interrupter.run(partial(push.send_multipart, [b"x"] * parts))
        finish_message(push, raised)
        push.send(b"last")
        thread.join(HANG_TIMEOUT_S)
        assert not thread.is_alive(), f"asleep: {interrupter.where}"
        close_all([pull, push])
        assert_terminates(ctx, interrupter.where)
        assert received[-1] == [b"last"]
        assert len(received) <= 3
        return raised

    sweep(scene)


def finish_message(push, raised):
    """End the message that may have been begun, as a program must before the next one."""
    if raised:
        push.send(b"end")


def test_interrupted_send_then_close():
    """Likewise, and the next thing done is to close: that wakes the receiver too."""

    def scene(interrupter):
        ctx = new_context()
        pull, push = linked(ctx, mq.PULL, mq.PUSH)
        raised = interrupter.run(partial(push.send, b"x"))
        push.close()
        assert drain(pull) in ([[b"x"]], [])
        pull.close()
        assert_terminates(ctx, interrupter.where)
        return raised

    sweep(scene)


def scenes_of_the_end():
    """Calls that may be interrupted, each given two linked sockets and their ctx."""
    return {
        "close": lambda ctx, one, two: two.close(),
        "bind": lambda ctx, one, two: two.bind("inproc://b"),
        "recv": lambda ctx, one, two: two.recv(mq.DONTWAIT),
        "poll": lambda ctx, one, two: two.poll(0),
        "shutdown": lambda ctx, one, two: ctx._core.termination.stop_sockets(),
    }


@pytest.mark.parametrize("name", list(scenes_of_the_end()))
def test_interrupted_anywhere_term_returns(name):
    """ "Lost events leak sockets, term hangs": interrupted anywhere, closed again, it ends."""
    call = scenes_of_the_end()[name]

    def scene(interrupter):
        ctx = new_context()
        one, two = linked(ctx, mq.DEALER, mq.DEALER)
        one.send(b"x")
        raised = interrupter.run(partial(call, ctx, one, two))
        close_all([one, two])
        assert_terminates(ctx, interrupter.where)
        return raised

    sweep(scene)


@pytest.mark.filterwarnings("ignore:Unclosed socket:ResourceWarning")
@pytest.mark.parametrize("others", [0, 2])
def test_interrupted_while_a_socket_is_made(others):
    """A socket that was not returned is closed, and no other's slot is touched: term returns.

    Also when it is the first, with which the reaper is made.
    """

    def scene(interrupter):
        ctx = new_context()
        before = [ctx.socket(mq.PAIR) for _ in range(others)]
        made = []
        raised = interrupter.run(lambda: made.append(ctx.socket(mq.PAIR)))
        after = [ctx.socket(mq.PAIR) for _ in range(2)]
        slots = [socket._core.slot for socket in [*before, *made, *after]]
        assert len(set(slots)) == len(slots), interrupter.where
        close_all([*before, *made, *after])
        assert_terminates(ctx, interrupter.where)
        return raised

    sweep(scene)


def play(scene, kind, interrupter):
    """Play a scene, interrupted; whether the interrupt came before its call was done."""
    ctx = new_context()
    running = scene(kind, ctx)
    raised = interrupter.run(next(running))
    try:
        for _ in running:
            pytest.fail("a scene yields one call")
    except (AssertionError, mq.ZMQError) as error:
        raise AssertionError(f"interrupted in {interrupter.where}") from error
    finally:
        close_all(list(ctx._sockets))
        assert_terminates(ctx, interrupter.where)
    return raised


@pytest.mark.filterwarnings("ignore:Unclosed socket:ResourceWarning")
@pytest.mark.parametrize(
    ("scene", "kind"), CASES, ids=[f"{scene.__name__} of {kind}" for scene, kind in CASES]
)
def test_an_interrupted_call_is_made_good(scene, kind):
    """Interrupted at any place: no socket is deaf, no message is torn, `term` returns."""
    place = CASES.index((scene, kind)) % STRIDE
    while play(scene, kind, PlaceInterrupter(place)):
        place += STRIDE


@pytest.mark.filterwarnings("ignore:Unclosed socket:ResourceWarning")
def test_interrupts_at_random_times():
    """The same by a timer's signals, which also come inside system calls, and while one waits."""
    choice = random.Random(0)
    interrupters = [TimerInterrupter(seed) for seed in range(len(CASES))]
    interrupts = 0
    while interrupts < INTERRUPTS:
        number = choice.randrange(len(CASES))
        with interrupters[number] as interrupter:
            interrupts += play(*CASES[number], interrupter)
