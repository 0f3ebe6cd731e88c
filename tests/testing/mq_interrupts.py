"""Interrupters: KeyboardInterrupt inside a call to mq, at a chosen place or at a random time."""

import dis
import gc
import inspect
import random
import signal
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import mq
from tests.testing.interrupts import GROUND_FLOOR, PURGATORY, TIMINGWHEEL, is_entering_with

MQ = str(Path(mq.__file__).parent)
PACKAGES = (GROUND_FLOOR, PURGATORY, TIMINGWHEEL, MQ)
LONGEST_S = 0.01  # some calls wait until they are interrupted
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


# The latter two are callbacks of weak references: of a weak set, of a reader's thread.
FINALIZERS = ("__del__", "remove", "_remove", "_note_end")


def in_finalizer(frame):
    """Whether an exception would be lost: Python ignores those of finalizers."""
    while frame is not None:
        if frame.f_code.co_name in FINALIZERS:
            return True
        frame = frame.f_back
    return False


class PlaceInterrupter:
    """Interrupts at the n-th place where a signal could, in the package's code.

    Compiled code is not traced, and not interrupted: the interpreted modules around it are.
    """

    def __init__(self, place):
        self.left = place
        self.raised = False
        self.where = "nowhere"
        self.back_in = None  # the frame a call of ours has just returned to

    def trace(self, frame, event, arg):
        """See `sys.settrace`."""
        code = frame.f_code
        if not code.co_filename.startswith(MQ):
            return None
        if in_finalizer(frame):
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


class TimerInterrupter:
    """Interrupts by a timer's signal, at a random time within the first `seconds`.

    For the main thread, inside `with`.  `seconds` follows how long the calls take: it grows as long
    as all of them are interrupted, or only their beginnings would be. `spared` are the code objects
    of the program's own functions, which are interrupted a little later.
    """

    def __init__(self, seed, spared=()):
        self.random = random.Random(seed)
        self.spared = spared
        self.seconds = 0.0001
        self.where = "a random time"
        self._armed = False

    def __enter__(self):
        self._before = signal.signal(signal.SIGALRM, self._interrupt)
        return self

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _interrupt(self, _number, frame):
        if self._armed and self._is_spared(frame):
            signal.setitimer(signal.ITIMER_REAL, 1e-4)
        elif self._armed:
            self._armed = False
            self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
            raise KeyboardInterrupt

    def _is_spared(self, frame):
        if is_entering_with(frame) and not frame.f_code.co_filename.startswith(PACKAGES):
            return True  # CPython leaves a lock of the standard library taken
        # A machine that is busy may come to the next signal inside the handler of the one before.
        own = frame.f_code.co_filename == __file__
        return own or in_finalizer(frame) or frame.f_code in self.spared

    def run(self, call):
        """Call; whether the interrupt came before it was done."""
        raised = True
        gc.disable()  # what it calls may not be interrupted: the exception would be lost
        start = perf_counter()
        try:
            self._armed = True
            signal.setitimer(signal.ITIMER_REAL, 1e-6 + self.random.random() * self.seconds)
            call()
            raised = not self._armed  # swallowed, or too late
            self._armed = False
        except KeyboardInterrupt:
            pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.enable()
        if raised:
            self.seconds = min(1.05 * self.seconds, LONGEST_S)
        else:
            self.seconds = 0.5 * self.seconds + 0.5 * (perf_counter() - start)
        return raised

    def check(self, play):
        """Check a play; say where it was interrupted if something is wrong."""
        try:
            play.check()
        except AssertionError as error:
            raise AssertionError(f"interrupted in {self.where}") from error
