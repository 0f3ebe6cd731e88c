"""Compiles the hot modules with mypyc while the package is built; everything else is in pyproject.

Without a C compiler, or with PURGATORY_PURE=1 in the environment, the package is installed as plain
Python, and says so. It is the same source: ``timingwheel.COMPILED`` tells which one runs.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# What is done for each timer and each operation. Modules that use weak references to their own
# objects, or whose loops are to let other threads in, stay interpreted: see `timingwheel.steps`.
HOT = [
    "mq/active.py",
    "mq/conflate.py",
    "mq/dist.py",
    "mq/fork.py",
    "mq/fq.py",
    "mq/hwm.py",
    "mq/lb.py",
    "mq/mailbox.py",
    "mq/message.py",
    "mq/options.py",
    "mq/own.py",
    "mq/pipe.py",
    "mq/sockets/base.py",
    "mq/sockets/pair.py",
    "mq/sockets/pipeline.py",
    "mq/sockets/pubsub.py",
    "mq/sockets/reqrep.py",
    "mq/sockets/router_dealer.py",
    "mq/steps.py",
    "mq/subscriptions.py",
    "mq/transfer.py",
    "mq/ypipe.py",
    "mq/yqueue.py",
    "purgatory/deferred.py",
    "purgatory/duties.py",
    "purgatory/entrance.py",
    "purgatory/keeper.py",
    "purgatory/keyed.py",
    "purgatory/keys.py",
    "purgatory/nesting.py",
    "purgatory/operation.py",
    "purgatory/outcome.py",
    "purgatory/service/checks.py",
    "purgatory/service/desk.py",
    "purgatory/service/journaling.py",
    "purgatory/service/network.py",
    "purgatory/service/operation.py",
    "purgatory/service/outbox.py",
    "purgatory/service/room.py",
    "purgatory/service/session.py",
    "purgatory/service/turn.py",
    "purgatory/watchers.py",
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


# Commands that need what mypyc makes; others merely ask what is in the package.
BUILDING = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}

# Types are checked elsewhere, where all that is imported is there. Here it need not be, so
# pyproject's strictness would object to values of unknown types. And what compiles is to be the
# same wherever it is built: neither what is installed nor a cache may make a difference.
MYPY_OPTIONS = [
    "--config-file=",
    f"--cache-dir={os.devnull}",
    "--no-site-packages",
    "--ignore-missing-imports",
    "--follow-imports=silent",
]


class BuildOrGoWithout(build_ext):
    """Compiling is for speed alone, so that it cannot be done is no reason not to install."""

    def run(self) -> None:
        """Build all extensions or none: half a compiled package would not work."""
        outputs = [Path(output) for output in self.get_outputs()]
        try:
            super().run()
        except Exception as error:  # whatever a compiler that is missing or broken leads to
            say(f"cannot compile ({type(error).__name__}: {error}); installing plain Python")
            for output in outputs:
                output.unlink(missing_ok=True)
            self.extensions = []
            self.distribution.ext_modules = []


def extensions() -> list[Extension]:
    """What to compile: the hot modules, and the two C files that stand beside them."""
    if os.environ.get("PURGATORY_PURE", "0") not in {"", "0"}:
        say("PURGATORY_PURE is set; installing plain Python")
        return []
    if sys.implementation.name != "cpython":
        say(f"mypyc is for CPython, this is {sys.implementation.name}; installing plain Python")
        return []
    beside = [
        Extension(f"timingwheel.{name}", [f"timingwheel/{name}.c"])
        for name in ("_collector", "_vacate")
    ]
    if BUILDING.isdisjoint(sys.argv):
        return beside
    try:
        from mypyc.build import mypycify

        compiled = mypycify(
            [*MYPY_OPTIONS, *HOT], opt_level="3", debug_level="0", group_name="timer_purgatory"
        )
    except (ImportError, SystemExit) as error:  # mypyc exits when it does not like the source
        say(f"mypyc cannot compile it ({error!r}); installing plain Python")
        return []
    return [*compiled, *beside]


def say(what: str) -> None:
    """Tell the one who installs; pip shows it with -v."""
    print(f"timer-purgatory: {what}", file=sys.stderr)


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildOrGoWithout})
