"""KeyboardInterrupt wherever it can come: nothing hangs, no wake-up is lost.

Compiled code is not traced, and not interrupted: the interpreted modules around it are.
"""

import dis
import gc
import inspect
import sys
import threading
from functools import cache, partial
from itertools import pairwise

import pytest

import mq
from mq._cpython.atomicity import COMPILED
from tests.testing.leaks import HANG_TIMEOUT_S, assert_terminates, close_all, new_context
from tests.testing.sockets import drain

CHECKED = ("CALL", "JUMP_BACKWARD")  # after these, and at a function's start, signals are seen


@cache
def interruptible(code):
    """The offsets in `code` at which a signal's exception can come.

    Not between the body and the end of a `with`: CPython does not look there, and so a lock taken
    by one is always released.
    """
    ranges = dis._parse_exception_table(code)

    def handler(offset):
        return next((r.target for r in ranges if r.start <= offset < r.end), None)

    found = [(i.offset, i.opname) for i in dis.get_instructions(code)]
    return {
        offset
        for (before, name), (offset, _) in pairwise(found)
        if name.startswith(CHECKED) and handler(before) == handler(offset)
    }


class Interrupter:
    """Raises KeyboardInterrupt at the n-th place where a signal could, in the package's code."""

    def __init__(self, place):
        self.left = place
        self.raised = False
        self.where = "nowhere"
        self.back_in = None  # the frame a call of ours has just returned to

    def trace(self, frame, event, arg):
        """See `sys.settrace`."""
        code = frame.f_code
        if "/mq/" not in code.co_filename or "/tests/" in code.co_filename:
            return None
        if code.co_flags & inspect.CO_GENERATOR:
            return None  # which is also called to be thrown away
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "call" or (
            event == "opcode" and frame is not self.back_in and frame.f_lasti in interruptible(code)
        ):
            self.step(frame)
        # Signals are not looked for when a function in Python returns to one, unless by way of C.
        inlined = event == "return" and not code.co_name.startswith("__")
        self.back_in = frame.f_back if inlined else None
        return self.trace

    def step(self, frame):
        """Count one place."""
        self.left -= 1
        if self.left < 0 and not self.raised:
            self.raised = True
            self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
            raise KeyboardInterrupt

    def run(self, call):
        """Call; whether the interrupt came before it was done."""
        gc.disable()  # finalizers of earlier scenes would be interrupted instead
        sys.settrace(self.trace)
        try:
            call()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
            self.back_in = None  # or what it refers to would live until it is collected
            gc.enable()
        return self.raised


def sweep(scene):
    """Play a scene again and again, interrupted one place later each time, until it is not."""
    for place in range(2000):
        if not scene(Interrupter(place)):
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
