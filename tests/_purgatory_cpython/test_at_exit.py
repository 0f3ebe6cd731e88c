"""What is closed while the interpreter exits returns in time, though daemon threads run no more."""

import subprocess
import sys
import textwrap
import threading

import pytest

from _purgatory_cpython import at_exit
from _purgatory_cpython.weak_identity_set import WeakIdentitySet
from purgatory import Purgatory

#: A module-level object that closes something in its finalizer, which comes after all threads.
PROGRAM = """
import atexit, faulthandler, sys, threading, time
faulthandler.dump_traceback_later(20, exit=True)
atexit.register(lambda: last())  # before the packages: their handlers come first
last = int
import purgatory.metrics
from prometheus_client import CollectorRegistry
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
    "one in a registry": ("Purgatory(registry=CollectorRegistry())", "self.owned.start()"),
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


#: A daemon thread of the program takes each lock of some parts, as in calls that freeze half-way.
FREEZER = """
from functools import partial
from _purgatory_cpython import at_exit
from timingwheel.rwlock import ReadWriteLock

apart.update(go=threading.Event(), held=threading.Event(), enter=[])
exec('''def freeze():
    go.wait()
    for each in enter:
        each()
    held.set()
    time.sleep(60)
''', apart)
threading.Thread(target=apart["freeze"], daemon=True).start()

def hold(parts):
    for part in parts:
        if isinstance(part, ReadWriteLock):
            apart["enter"].insert(0, part.__enter__)
        elif isinstance(part, at_exit._LOCKS):
            again = hasattr(part, "_is_owned")
            apart["enter"].append(part.acquire if again else partial(part.acquire, False))
    assert len(apart["enter"]) > LEAST
    apart["go"].set()
    apart["held"].wait()
"""
#: Last of all, it takes the locks of what is closed then.
FREEZE = f"""{FREEZER}
from purgatory.core.watch_lists import WatchLists
LEAST = 5

def last():
    parts = list(at_exit._parts_of(owner.owned))
    for part in parts:
        if isinstance(part, WatchLists):
            part._changing = True
    hold(parts)
"""


@pytest.mark.parametrize("what", OWNED)
def test_frozen_calls_of_the_program(what):
    """A daemon thread that froze within a call holds up no close: no lock, no change, no writer."""
    made, does = OWNED[what]
    printed, errors = output([f"self.owned = {made}", does], CLOSES[0], FREEZE)
    assert printed == "closed in time\n", errors
    assert "Traceback" not in errors


#: All that a finalizer may call, while a frozen thread of the program holds each lock there is.
CALLING = (
    """
import atexit, faulthandler, gc, sys, threading, time
faulthandler.dump_traceback_later(50, exit=True)
atexit.register(lambda: freeze_all())  # before the packages: their handlers come first
import mq
from prometheus_client import CollectorRegistry, generate_latest
from purgatory import DelayedOperation, Purgatory
from timingwheel import InlineExecutor, Timer, TimerTask

registry = CollectorRegistry()
apart = {{"time": time}}
LEAST = 3
"""
    + FREEZER
    + """
def freeze_all():
    at_exit._many.clear()  # of tasks, too
    parts = {{id(part): part for part in at_exit._parts_of(apart.pop("owned")())}}
    at_exit._many.update(many)
    hold(parts.values())

many = dict(at_exit._many)

def raises(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError(call)

class Owner:
    def __init__(self):
{make}
        apart["owned"] = lambda: list(vars(self).values())
    def __del__(self):
        assert sys.is_finalizing()
{calls}
        print("called", flush=True)

{owner}
"""
)
MAKE_PURGATORY = """
self.owned = p = Purgatory(registry=registry, timer={timer})
self.future, self.both = p.defer("k", timeout=60), p.defer("k3", "k4", timeout=60, need=2)
self.future._condition, self.both._condition
self.waits, self.new = DelayedOperation(60), DelayedOperation(60)
p.try_complete_else_watch(self.waits, ["k", "k5"])
{start}
"""
PURGATORY_CALLS = """
p = self.owned
p.defer("new", timeout=60)
p.stats(), p.watched, p.delayed, repr(p), generate_latest(registry)
p.extend(self.waits, 5), self.future.extend(5), self.future.done(), self.future.running()
self.future.add_done_callback(repr)
raises(TimeoutError, lambda: self.future.result(0))
raises(TimeoutError, lambda: self.future.exception(0))
p.complete("none", 1, hold=5), p.complete("none", 1, limit=1), p.complete("k3", 1)
p.complete_later("k2"), p.fail("k2", ValueError), p.cancel_for_key("k2"), p.check_and_complete("k5")
p.try_complete_else_watch(self.new, ["k"])
self.future.cancel(), self.both.set_result(1), self.waits.cancel(), self.new.force_complete()
"""
MAKE_TIMER = """
self.owned = t = Timer(executor={executor})
self.task, self.every, self.new = t.schedule(60, int), t.every(60, int), TimerTask(60, int)
{start}
"""
TIMER_CALLS = """
t = self.owned
t.schedule(5, int), t.schedule(0, int), t.schedule_at(5, int), t.every(60, int), t.add(self.new)
t.reschedule(self.task, 7), self.task.cancel(), self.every.cancel(), self.task.done()
t.stats(), len(t), t.levels(), t.first_tasks(), t.delay_to_next(), repr(t)
t.advance_clock(), t.advance_clock(0.001)
"""
MAKE_SOCKETS = """
self.context, self.other = mq.Context(), mq.Context()
self.push, self.pull = self.context.socket(mq.PUSH), self.context.socket(mq.PULL)
self.push.sndtimeo = self.pull.rcvtimeo = 1
self.late = self.context.socket(mq.PUSH)
self.pull.bind("inproc://a"), self.push.connect("inproc://a"), self.late.connect("inproc://later")
# Else garbage, too, and a collection may call the finalizers, which close them, in any order: a
# hook goes last.
exec("def keep(*_): pass", out_of_module := {})
out_of_module["keep"].sockets = self.push, self.pull, self.late, self.context, self.other
sys.addaudithook(out_of_module["keep"])
"""
SOCKET_CALLS = """
self.push.send(b"x"), self.pull.recv(), self.pull.poll(0), self.pull.poll(1), self.push.events
self.push.send_multipart([b"a", b"b"]), self.pull.recv_multipart(), self.push.sndhwm
self.pull.bind("inproc://b"), self.late.connect("inproc://c"), self.context.socket(mq.REP).close()
self.late.disconnect("inproc://later"), self.pull.unbind("inproc://b"), mq.Context.instance()
self.push.close(0), self.pull.close(0), self.late.close(0), self.context.term(), self.other.term()
"""
CALLERS = {
    "purgatory": (MAKE_PURGATORY.format(timer=None, start=""), PURGATORY_CALLS),
    "started purgatory": (MAKE_PURGATORY.format(timer=None, start="p.start()"), PURGATORY_CALLS),
    "shared timer": (MAKE_PURGATORY.format(timer="Timer()", start=""), PURGATORY_CALLS),
    "timer": (MAKE_TIMER.format(executor=None, start=""), TIMER_CALLS),
    "started timer": (MAKE_TIMER.format(executor=None, start="t.start()"), TIMER_CALLS),
    "inline timer": (MAKE_TIMER.format(executor="InlineExecutor()", start=""), TIMER_CALLS),
    "the end of a timer alone": (MAKE_TIMER.format(executor=None, start="t.start()"), ""),
    "sockets": (MAKE_SOCKETS, SOCKET_CALLS),
}
#: What is finalized when: with the modules, or as garbage before; without a collection, too.
OWNERS = {
    "with its module": "owner = Owner()",
    "as garbage": "gc.disable(); owner = Owner(); owner.owner = owner; del owner; gc.enable()",
    "uncollected": "gc.disable(); owner = Owner()",
}


def call_in_finalizer(make, calls, owner):
    """Return what a program prints, and its errors, that makes calls beside a frozen thread."""
    make, calls = (textwrap.indent(code, " " * 8) for code in (make, calls))
    code = CALLING.format(make=make, calls=calls, owner=OWNERS[owner])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("what", CALLERS)
def test_calls_beside_frozen_threads(what, owner):
    """No call in a finalizer waits for a lock of a frozen thread, whenever the finalizer runs."""
    assert call_in_finalizer(*CALLERS[what], owner) == ("called\n", "")


def test_tasks_are_not_visited():
    """At the exit, a purgatory is visited in the same time, however many operations wait."""
    purgatory = Purgatory()
    before = len(list(at_exit._parts_of(purgatory)))
    futures = [purgatory.defer(("k", number), timeout=60) for number in range(1000)]
    assert before > 5
    assert len(list(at_exit._parts_of(purgatory))) <= before + 20  # overflow wheels
    assert len(futures) == purgatory.delayed
    purgatory.close()


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
        monkeypatch.setattr(at_exit, "_with_threads", WeakIdentitySet())
        things = [Threads(ArithmeticError("no")), Threads(), Threads(RuntimeError("no"))]
        for thing in things:
            at_exit.register(thing)
        monkeypatch.setattr(at_exit, "_call_once_frozen", lambda: None)
        at_exit._stop_all()
        assert [thing.calls for thing in things] == [["stop", ("join", True)]] * 3

    def test_what_is_dropped_is_forgotten(self, monkeypatch):
        """The registry keeps nothing alive."""
        monkeypatch.setattr(at_exit, "_with_threads", WeakIdentitySet())
        at_exit.register(Threads())
        assert list(at_exit._with_threads) == []
        assert threading.active_count() >= 1
