"""Scenes in which memory is short: each fails at the n-th allocation, then at the one after, ...

`_testcapi.set_nomemory` lets every allocation of the process fail from one number to another. A
crash would end the tests, so each scene is played in a process of its own. CI fails every
`STRIDE`-th allocation; OUT_OF_MEMORY_ALL=1 fails each of the first 2,000.
"""

import gc
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

ALLOCATIONS = 2000
STRIDE = 1 if os.environ.get("OUT_OF_MEMORY_ALL") else 97
# How many allocations fail one after the other. Not all from there on: CPython 3.11 tries for ever
# to allocate an instruction offset when it unwinds (`exception_unwind` in ceval.c), and aborts if
# it fails 32 times to make one exception (`_PyErr_NormalizeException`).
WIDTHS = (1, 3, 30)
TIMEOUT_S = 900


class Scene:
    """What is done while memory is short; a new one for each allocation that fails.

    The constructor prepares everything. `steps` are called in turn, and may raise MemoryError;
    `raised[n]` tells which did. Only `check` runs with enough memory again.
    """

    steps: list[Callable[[], object]]
    width: int

    def __init__(self, steps: list[Callable[[], object]], width: int) -> None:
        self.steps = steps
        self.width = width
        self.raised = [False] * len(steps)
        self.results: list[Any] = [None] * len(steps)

    def play(self, start: int, stop: int) -> None:
        """Make the steps; the allocations from `start` to `stop` fail."""
        steps, raised, results = self.steps, self.raised, self.results
        others: list[RuntimeError] = []
        places = iter(list(range(len(steps))))
        set_nomemory, remove_mem_hooks = _hooks()
        # Nothing here allocates: a shortage in the harness itself would hide the one in a step.
        set_nomemory(start, stop)
        try:
            for n in places:
                try:
                    results[n] = steps[n]()
                except MemoryError:
                    raised[n] = True
                except RuntimeError as error:  # CPython's word where a lock is to be made
                    raised[n] = True
                    others.append(error)
        finally:
            remove_mem_hooks()
        assert all("can't allocate lock" in str(error) for error in others), others

    def check(self) -> None:
        """Assert that nothing was lost, and that all invariants hold."""
        raise NotImplementedError


def _hooks() -> tuple[Callable[[int, int], None], Callable[[], None]]:
    import _testcapi  # noqa: PLC0415  # not every Python has it

    return _testcapi.set_nomemory, _testcapi.remove_mem_hooks


def play_in_process(scene: type[Any]) -> None:
    """Play a scene with each allocation failing, in a new process; fail if that crashes."""
    pytest.importorskip("_testcapi", reason="this Python cannot let allocations fail")
    command = [sys.executable, "-X", "faulthandler", "-m", __name__]
    done = subprocess.run(
        [*command, scene.__module__, scene.__name__],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"


def _play_all(make: Callable[[int], Scene], starts: range) -> None:
    gc.disable()  # finalizers of earlier scenes are not to be played in
    for width in WIDTHS:
        for start in starts:
            scene = make(width)
            try:
                scene.play(start, start + width)
                scene.check()
            except BaseException:
                print(f"allocation {start} failed, width {width}", file=sys.stderr)  # noqa: T201
                raise
            del scene
            if start % 64 == 0:
                gc.collect()


def main() -> None:
    """Play the scene of a module: `python -m tests.testing.out_of_memory MODULE SCENE`."""
    module, name = sys.argv[1:3]
    starts = range(int(sys.argv[3]), int(sys.argv[4])) if sys.argv[3:] else None
    _play_all(
        getattr(importlib.import_module(module), name), starts or range(0, ALLOCATIONS, STRIDE)
    )


if __name__ == "__main__":
    main()
