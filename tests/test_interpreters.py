"""Interpreters of other kinds: those beside the main one, and those without an interpreter lock."""

import os
import subprocess
import sys
import sysconfig

import pytest

from timingwheel import COMPILED

PACKAGES = [
    "_purgatory_cpython",
    "timingwheel",
    "mq",
    "purgatory",
    "purgatory.service.protocol",
]
COMPILED_ONLY = pytest.mark.skipif(not COMPILED, reason="plain Python works in any interpreter")
PLAIN_ONLY = pytest.mark.skipif(COMPILED, reason="what is compiled is for the main interpreter")
ISOLATED = pytest.mark.parametrize("isolated", [False, True], ids=["shared", "isolated"])

USE_ALL = """
import mq, purgatory, timingwheel

ran = []
clock = timingwheel.ManualClock()
timer = timingwheel.Timer(clock=clock, executor=timingwheel.InlineExecutor())
timer.schedule(1, ran.append, "timer")
clock.advance(2)
timer.advance_clock()
mailbox = mq.Mailbox()
mailbox.send("mq")
ran.append(mailbox.recv(0))
waiting = purgatory.Purgatory("p", timer=timer)
waiting.defer(5, "key").add_done_callback(lambda future: ran.append("purgatory"))
waiting.complete("key")
mailbox.close()
print(*ran)
"""
USE_THREADS = """
import threading, timingwheel

ran = threading.Event()
with timingwheel.Timer() as timer:
    timer.schedule(0, ran.set)
    print(ran.wait(60))
"""
TRY_IMPORT = """
try:
    import {package}
except ImportError as error:
    print(error)
    import sys
    assert not [name for name in sys.modules if "mypyc" in name]
"""
RUN_IN_ANOTHER = """
try:
    import _interpreters as interpreters
except ImportError:  # before 3.13
    import _xxsubinterpreters as interpreters

    other = interpreters.create(isolated={isolated})
else:
    other = interpreters.create("isolated" if {isolated} else "legacy")
failure = interpreters.run_string(other, {code!r})
if failure is not None:  # before 3.13 it is raised
    raise SystemExit(failure.formatted)
interpreters.destroy(other)
"""


def run(code):
    """Run the code in a Python of its own, warnings being errors; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def in_another(code, isolated):
    """Return code that runs the given one in a subinterpreter."""
    return RUN_IN_ANOTHER.format(isolated=isolated, code=code)


@COMPILED_ONLY
@ISOLATED
@pytest.mark.parametrize("package", PACKAGES)
def test_a_subinterpreter_cannot_import(package, isolated):
    """It gets an ImportError before anything compiled is loaded; the main one is unharmed."""
    refused = in_another(TRY_IMPORT.format(package=package), isolated)
    printed = run(refused + USE_ALL + refused + USE_ALL)
    assert printed[1] == printed[3] == "timer mq purgatory"
    for message in printed[::2]:
        assert "is compiled and so works in the main interpreter only" in message


@PLAIN_ONLY
@ISOLATED
def test_plain_python_works_in_a_subinterpreter(isolated):
    """Each interpreter has its own packages."""
    used = in_another(USE_ALL, isolated)
    assert run(USE_ALL + used + USE_ALL) == ["timer mq purgatory"] * 3


@PLAIN_ONLY
def test_a_subinterpreter_may_have_a_timer_with_threads():
    """Where daemon threads are allowed, which an isolated one refuses, a timer starts as ever."""
    assert run(in_another(USE_THREADS, isolated=False)) == ["True"]


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has an interpreter lock"
)
def test_an_import_leaves_the_interpreter_lock_off():
    """Every extension declares that it needs no lock: importing one that does not turns it on."""
    assert run(USE_ALL + "import sys; print(sys._is_gil_enabled())")[-1] == "False"
