"""Tracing: offers the baton before each line, or each opcode, of the packages.

Compiled code has no lines: there threads change at primitives only.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import _purgatory_cpython
import mq
import purgatory
import timingwheel
from tests.simulation.inprocess.policy import NOWHERE, OPCODES
from tests.simulation.inprocess.scheduler import Scheduler

_PACKAGES: Final = (_purgatory_cpython, timingwheel, mq, purgatory)
_SOURCES: Final = tuple(f"{Path(each.__path__[0])}/" for each in _PACKAGES)
# Not what draws a world's random numbers.
_NOT: Final = f"{Path(purgatory.__path__[0])}/testing/"


def tracer(scheduler: Scheduler) -> Callable[[], object]:
    """Return what lets the calling thread offer the baton from now on, as its policy has it."""
    if scheduler.policy.traces == NOWHERE:
        return bool
    opcodes = scheduler.policy.traces == OPCODES
    known: dict[CodeType, bool] = {}
    step = scheduler.step
    steps = ("opcode",) if opcodes else ("line",)

    def trace_step(frame: FrameType, event: str, argument: Any) -> Any:
        del frame, argument
        if event in steps:
            step()
        return trace_step

    def trace_call(frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        code = frame.f_code
        is_ours = known.get(code)
        if is_ours is None:
            is_ours = known[code] = _is_of_packages(code)
        if not is_ours:
            return None
        frame.f_trace_opcodes = opcodes
        return trace_step

    return lambda: sys.settrace(trace_call)


def _is_of_packages(code: CodeType) -> bool:
    name = code.co_filename
    return name.startswith(_SOURCES) and not name.startswith(_NOT)
