"""What is closed while the interpreter exits returns in time, though daemon threads run no more."""

import subprocess
import sys
import textwrap
import threading
import weakref

import pytest

from _purgatory_cpython import at_exit

#: A module-level object that closes something in its finalizer, which comes after all threads.
PROGRAM = """
import atexit, faulthandler, sys, threading, time
faulthandler.dump_traceback_later(20, exit=True)
atexit.register(lambda: last())  # before the packages: their handlers come first
last = int
import purgatory.metrics
from concurrent.futures import ThreadPoolExecutor
from purgatory import Purgatory
from timingwheel import InlineExecutor, Timer

began = threading.Event()
# In a dict of its own: a frame that is never left keeps its globals, and so the owner.
apart = {{"began": began, "time": time}}
exec("def slow(*_): began.set(); time.sleep(60)", apart)
slow = apart["slow"]

class Owner:
    def __init__(self):
{make}
    def __del__(self):
        before = time.monotonic()
        self.close()
        print("closed in time" if time.monotonic() - before < 2 else "late", flush=True)

owner = Owner()
{then}
"""
CLOSES = [
    "self.owned.close()",
    "self.owned.close(timeout=1)",
    "self.owned.close(wait=False)",
    "self.owned.close(cancel_pending=False, timeout=1)",
    "self.owned.__exit__(None, None, None)",
]
PENDING = "self.owned.defer('k', timeout=60); self.owned.complete_later('k2')"
POSTED = "self.owned.defer('k').add_done_callback(slow); self.owned.complete_later('k')"
BUSY = "[self.owned.defer('k', timeout=n / 1e5) for n in range(20_000)]"
#: What is made, and what it does when the program ends.
OWNED = {
    "a started purgatory": ("Purgatory()", "self.owned.start()"),
    "operations that wait": ("Purgatory()", f"self.owned.start(); {PENDING}"),
    "one that was never started": ("Purgatory()", PENDING),
    "several workers": ("Purgatory(executor_workers=3)", f"self.owned.start(); {PENDING}"),
    "a shared timer": (
        "Purgatory(timer=Timer())",
        f"self.owned.timer.start(); self.owned.start(); {PENDING}",
    ),
    "a slow callback": (
        "Purgatory()",
        "self.owned.start(); self.owned.timer.schedule(0, slow); began.wait()",
    ),
    "a loop in a slow callback": (
        "Purgatory()",
        f"self.owned.start(); {POSTED}; began.wait()",
    ),
    "a busy purgatory": (
        "Purgatory()",
        f"self.owned.start(); {BUSY}",
    ),
    "a timer": ("Timer()", "self.owned.start(); self.owned.every(0.0002, int)"),
    "a timer with a slow task": (
        "Timer()",
        "self.owned.start(); self.owned.schedule(0, slow); began.wait()",
    ),
    "an inline timer": (
        "Timer(executor=InlineExecutor())",
        "self.owned.start(); self.owned.every(0.0002, int)",
    ),
    "a timer with tasks that are due": ("Timer()", "self.owned.schedule(0.001, int)"),
}


def output(make, close, then="time.sleep(0.05)"):
    """Return what a program prints that makes an object and closes it in a finalizer."""
    lines = [*make, f"self.close = lambda: ({close}, None)[1]" if "\n" not in close else close]
    code = PROGRAM.format(make=textwrap.indent("\n".join(lines), " " * 8), then=then)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize("what", OWNED)
@pytest.mark.parametrize("close", [CLOSES[0], CLOSES[1]])
def test_close_returns(what, close):
    """Whatever the threads were doing, close returns in a finalizer at the exit."""
    made, does = OWNED[what]
    printed, errors = output([f"self.owned = {made}", does], close)
    assert printed == "closed in time\n", errors


#: Last of all, a daemon thread of the program takes each lock, as in calls that freeze half-way.
FREEZE = """
from functools import partial
from _purgatory_cpython import at_exit
from purgatory.core.watch_lists import WatchLists
from timingwheel.rwlock import ReadWriteLock

apart.update(go=threading.Event(), held=threading.Event(), parts=[])
exec('''def freeze():
    go.wait()
    for enter in parts:
        enter()
    held.set()
    time.sleep(60)
''', apart)
threading.Thread(target=apart["freeze"], daemon=True).start()

def last():
    for part in at_exit._parts_of(owner.owned):
        if isinstance(part, ReadWriteLock):
            apart["parts"].insert(0, part.__enter__)
        elif isinstance(part, at_exit._LOCKS):
            again = hasattr(part, "_is_owned")
            apart["parts"].append(part.acquire if again else partial(part.acquire, False))
        elif isinstance(part, WatchLists):
            part._changing = True
    assert len(apart["parts"]) > 5
    apart["go"].set()
    apart["held"].wait()
"""


@pytest.mark.parametrize("what", OWNED)
def test_frozen_calls_of_the_program(what):
    """A daemon thread that froze within a call holds up no close: no lock, no change, no writer."""
    made, does = OWNED[what]
    printed, errors = output([f"self.owned = {made}", does], CLOSES[0], FREEZE)
    assert printed == "closed in time\n", errors
    assert "Traceback" not in errors


def test_operations_that_nobody_will_end():
    """Where a close would wait for other threads, those that wait are cancelled."""
    made, does = OWNED["a shared timer"]
    printed, errors = output(
        [f"self.owned = {made}", does], "self.owned.close(cancel_pending=False)"
    )
    assert printed == "closed in time\n", errors


def test_a_wait_for_ever():
    """A wait without a timeout is over at once: no thread is left that could end it."""
    made, does = OWNED["operations that wait"]
    wait = "lambda: print(type(self.owned.defer('new').exception()).__name__)"
    make = [f"self.owned = {made}", does, f"self.wait = {wait}"]
    printed, errors = output(make, "self.wait()")
    assert "TimeoutError" in errors
    assert printed == ""


@pytest.mark.parametrize("close", CLOSES)
def test_every_way_to_close(close):
    """The arguments of close change nothing about that."""
    made, does = OWNED["operations that wait"]
    assert output([f"self.owned = {made}", does], close)[0] == "closed in time\n"


def test_a_metrics_server():
    """The endpoint of the metrics is closed, too."""
    make = ["self.owned = purgatory.metrics.serve(0)"]
    assert output(make, "self.owned.close()")[0] == "closed in time\n"


def test_exit_is_not_delayed():
    """A program that ends with idle threads ends at once, whether it closes them or not."""
    then = "import atexit; atexit.register(lambda: print('handler', owner.owned.complete('k', 1)))"
    made, does = OWNED["operations that wait"]
    printed, _ = output([f"self.owned = {made}", does], "None", then)
    assert printed.splitlines() == ["handler 1", "closed in time"]


class Threads:
    """A thing with threads, which may fail to stop them."""

    def __init__(self, error=None):
        self.error, self.calls = error, []

    def stop_at_exit(self):
        self.calls.append("stop")
        if self.error is not None:
            raise self.error

    def join(self, timeout):
        self.calls.append(("join", 0 <= timeout <= at_exit.GRACE_S))


class TestRegistry:
    def test_each_is_stopped(self, monkeypatch):
        """One that fails keeps no other from being stopped."""
        monkeypatch.setattr(at_exit, "_registered", weakref.WeakSet())
        things = [Threads(ArithmeticError("no")), Threads(), Threads(RuntimeError("no"))]
        for thing in things:
            at_exit.register(thing)
        at_exit._stop_all()
        assert [thing.calls for thing in things] == [["stop", ("join", True)]] * 3

    def test_what_is_dropped_is_forgotten(self, monkeypatch):
        """The registry keeps nothing alive."""
        monkeypatch.setattr(at_exit, "_registered", weakref.WeakSet())
        at_exit.register(Threads())
        assert list(at_exit._registered) == []
        assert threading.active_count() >= 1
