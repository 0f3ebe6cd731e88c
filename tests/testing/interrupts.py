"""Interrupter: raises a KeyboardInterrupt at a chosen place where one can come.

CPython handles signals when a Python function begins, after a call of a C function, and when a
loop jumps back. `interrupted_at` raises one at the n-th such place in the given packages.

One place is left out: CPython 3.14 may handle a signal between the `__enter__` of a lock and the
body of the `with`, which then never unlocks it (its issue 148874, mended in 3.15).
"""

import dis
import gc
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import _purgatory_cpython
import purgatory
import timingwheel

PURGATORY = str(Path(purgatory.__file__).parent)
TIMINGWHEEL = str(Path(timingwheel.__file__).parent)
GROUND_FLOOR = str(Path(_purgatory_cpython.__file__).parent)

_LETTING_IN = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD"}
# CPython does not always trace the instructions of a function that is called from none that is
# traced, since 3.13: such a scene is played again.
TRIES = 1 if sys.version_info < (3, 13) else 4
_LOAD_SPECIAL = dis.opmap.get("LOAD_SPECIAL")


@cache
def _last_before_places(code: CodeType) -> frozenset[int]:
    """Return the offsets of the instructions after which a signal is handled."""
    return frozenset(
        one.offset
        for one in dis.get_instructions(code)
        if one.opname in _LETTING_IN and not _is_entering_with(code, one.offset)
    )


def is_entering_with(frame: FrameType) -> bool:
    """Return whether what the frame calls now is the `__enter__` of a `with`, since 3.14."""
    return _is_entering_with(frame.f_code, frame.f_lasti)


def _is_entering_with(code: CodeType, offset: int) -> bool:
    # `co_code` is a copy each time.
    return _LOAD_SPECIAL is not None and offset >= 2 and code.co_code[offset - 2] == _LOAD_SPECIAL


class TimeLimit(Exception):
    """What a signal handler raises that is no KeyboardInterrupt, as Celery's soft time limit."""


class Interrupter:
    """A trace function that raises an error once, at the n-th place; 0: never."""

    def __init__(
        self,
        at: int,
        folders: tuple[str, ...],
        error: type[BaseException] = KeyboardInterrupt,
    ) -> None:
        self.at = at
        self.error = error
        self.folders = folders
        self.seen = 0
        self.where = ""
        self.fired = False
        #: The frame whose last instruction lets signals in, unless it has called Python.
        self._open: FrameType | None = None

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        """See `sys.settrace`; gets the calls alone."""
        # The return from a Python function is no such place; its beginning was one.
        self._open = None
        if not frame.f_code.co_filename.startswith(self.folders):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        self._place(frame)
        return self._trace_instructions(_last_before_places(frame.f_code))

    def _trace_instructions(self, last_before_places: frozenset[int]) -> Any:
        def trace(frame: FrameType, event: str, arg: object) -> Any:
            if event == "opcode":
                if self._open is frame:
                    self._open = None
                    self._place(frame)
                if frame.f_lasti in last_before_places:
                    self._open = frame
            elif event == "return":
                self._open = None
            return trace

        return trace

    def _place(self, frame: FrameType) -> None:
        self.seen += 1
        if self.seen == self.at:
            self.fired = True
            self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
            self.interrupt()

    def interrupt(self) -> None:
        """What the signal handler does."""
        raise self.error


def interrupted_at(
    at: int,
    function: Callable[[], object],
    folders: tuple[str, ...] = (PURGATORY,),
    error: type[BaseException] = KeyboardInterrupt,
) -> Interrupter:
    """Call a function and interrupt it at a place; return the interrupter.

    An Exception may be taken for one of a callback or a key, and reported.
    """
    interrupter = Interrupter(at, folders, error)
    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # it would free what earlier tests have left: an interrupt of that is swallowed
    sys.settrace(interrupter)
    try:
        function()
    except error:
        sys.settrace(before)
        assert interrupter.fired
    else:
        sys.settrace(before)
        swallowed = interrupter.fired and not issubclass(error, Exception)
        assert not swallowed, f"the interrupt at {interrupter.where} was swallowed"
    finally:
        if collects:
            gc.enable()
    return interrupter


class Handler(Interrupter):
    """A trace function that calls a handler once, at the n-th place, and raises nothing."""

    def __init__(self, at: int, folders: tuple[str, ...], handler: Callable[[], object]) -> None:
        super().__init__(at, folders)
        self._handler = handler

    def interrupt(self) -> None:
        """Call the handler."""
        self._handler()


def handled_at(
    at: int,
    function: Callable[[], object],
    handler: Callable[[], object],
    folders: tuple[str, ...] = (PURGATORY,),
) -> Handler:
    """Call a function, and a signal handler at a place in it; return the trace function."""
    trace, before = Handler(at, folders, handler), sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return trace


def at_every_place(scene: Callable[[int], Interrupter], at_least: int) -> None:
    """Play a scene, interrupted at one place later each time, until it is not.

    `scene` gets the number of the place. `at_least`: so many places there are.
    """
    place = 1
    while any(scene(place).fired for _ in range(TRIES)):
        place += 1
    assert place > at_least or TRIES > 1, place
