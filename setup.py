"""Compiles the hot modules with mypyc while the package is built; everything else is in pyproject.

Without a C compiler, or with PURGATORY_PURE=1 in the environment, the package is installed as plain
Python, and says so. It is the same source: ``timingwheel.COMPILED`` tells which one runs.
"""

import os
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# What is done for each timer and each operation. Modules that use weak references to their own
# objects, or whose loops are to let other threads in, stay interpreted: see `timingwheel.steps`.
HOT = [
    "timingwheel/buckets.py",
    "timingwheel/delay.py",
    "timingwheel/delayqueue.py",
    "timingwheel/intake.py",
    "timingwheel/runner.py",
    "timingwheel/rwlock.py",
    "timingwheel/source.py",
    "timingwheel/steps.py",
    "timingwheel/task.py",
    "timingwheel/tasklist.py",
    "timingwheel/wheel.py",
]


class BuildOrGoWithout(build_ext):
    """Compiling is for speed alone, so that it cannot be done is no reason not to install."""

    def run(self) -> None:
        """Build all extensions or none: half a compiled package would not work."""
        try:
            super().run()
        except Exception as error:  # whatever a compiler that is missing or broken leads to
            say(f"cannot compile ({type(error).__name__}: {error}); installing plain Python")
            self.extensions = []
            self.distribution.ext_modules = []


def extensions() -> list[Extension]:
    """What to compile: the hot modules, and the one C file that stands beside them."""
    if os.environ.get("PURGATORY_PURE", "0") not in ("", "0"):
        say("PURGATORY_PURE is set; installing plain Python")
        return []
    if sys.implementation.name != "cpython":
        say(f"{sys.implementation.name} has its own compiler; installing plain Python")
        return []
    try:
        from mypyc.build import mypycify

        compiled = mypycify(HOT, opt_level="3", debug_level="0", group_name="timer_purgatory")
    except (ImportError, SystemExit) as error:  # mypyc exits when it does not like the source
        say(f"mypyc cannot compile it ({error!r}); installing plain Python")
        return []
    return [*compiled, Extension("timingwheel._collector", ["timingwheel/_collector.c"])]


def say(what: str) -> None:
    """Tell the one who installs; pip shows it with -v."""
    print(f"timer-purgatory: {what}", file=sys.stderr)


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildOrGoWithout})
