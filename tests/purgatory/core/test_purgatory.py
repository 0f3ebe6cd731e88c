"""Closing a purgatory, and what a forked child may do with its parent's."""

import concurrent.futures
import contextlib
import gc
import os
import subprocess
import sys
import threading

import pytest
from prometheus_client import CollectorRegistry

from purgatory import (
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryForked,
)
from purgatory.registry import live_purgatories
from tests.testing.eventually import eventually
from tests.testing.interrupts import PURGATORY, TIMINGWHEEL, at_every_place, handled_at
from tests.testing.purgatory_harness import (
    HANG,
    Hooked,
    PurgatoryHarness,
    Recorder,
    all_in_threads,
    in_thread,
)
from timingwheel import ManualClock, Timer, TimerClosed
from timingwheel.lowlevel import COMPILED, JOIN_GRACE_S

LOCKS = {
    "timer": lambda p: p.timer._lock.reading(),
    "executor": lambda p: p.timer._executor._lock,
    "lists": lambda p: p._parts.lists._lock,
    "held": lambda p: p._parts.held._lock,
}


def _wait(p, future, operation):
    with contextlib.suppress(TimeoutError):
        future.exception(0.001)


#: Calls that take the lock of an operation or a future.
CALLS = {
    "complete": lambda p, future, operation: p.complete("k"),
    "fail": lambda p, future, operation: p.fail("k", ArithmeticError),
    "cancel": lambda p, future, operation: future.cancel(),
    "force_complete": lambda p, future, operation: operation.force_complete(),
    "set_result": lambda p, future, operation: future.set_result(1),
    "wait": _wait,
}


@pytest.fixture
def harness():
    return PurgatoryHarness()


class Journal:
    """A journal that notes nothing."""

    def ended(self, operation, outcome):
        """Do nothing."""


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"name": 5}, TypeError, "name is 5"),
        ({"timer": "own"}, TypeError, "timer is 'own'; expected a Timer or None"),
        ({"on_error": 5}, TypeError, "on_error is 5"),
        ({"journal": Journal}, TypeError, "journal is .*; expected an object of the class"),
        ({"journal": object()}, TypeError, r"journal\.ended is None"),
        ({"registry": object()}, TypeError, "registry is "),
        ({"executor_workers": 0}, ValueError, "executor_workers is 0"),
        ({"executor_workers": 2, "timer": Timer()}, ValueError, "for a timer of its own"),
        ({"max_held": -1}, ValueError, "max_held is -1"),
    ],
)
def test_bad_options(options, error, words):
    """Each is named by the error, and nothing is made."""
    before = list(live_purgatories())
    with pytest.raises(error, match=words):
        Purgatory(**options)
    assert [p for p in live_purgatories() if p not in before] == []


def test_good_options():
    """What is allowed at its bound; a journal needs `ended` alone."""
    for options in ({"max_held": 0}, {"executor_workers": 1}, {"journal": Journal()}):
        Purgatory(**options).close()


def test_start_with_a_timer_that_was_closed():
    """The timer's error comes out: the purgatory itself is open."""
    p = Purgatory()
    p.timer.close()
    with pytest.raises(TimerClosed):
        p.start()
    p.close()


def test_close_lets_go_of_held_events(harness):
    """A shared timer keeps none of them."""
    harness.purgatory.complete("k", 1, hold=5)
    assert len(harness.timer) == 1
    harness.purgatory.close()
    assert (len(harness.timer), harness.purgatory.stats().held) == (0, 0)


class TestClose:
    def test_close_ends_what_is_pending(self, harness):
        """Closing removes watchers, calls on_cancel, and fails futures with OperationCancelled."""
        p = harness.purgatory
        op, future = Recorder(), p.defer("k", "x")
        p.try_complete_else_watch(op, ["k"])
        p.close()
        assert op.calls == ["cancel"]
        with pytest.raises(OperationCancelled):
            future.result(0)
        assert (p.watched, p.delayed, p.stats().cancelled, len(harness.timer)) == (0, 0, 2, 0)
        assert p._bus.mailbox.closed
        p.close()
        p._check()

    def test_after_close_everything_raises(self, harness):
        """After close each method raises PurgatoryClosed, which names the purgatory."""
        p = harness.purgatory
        p.close()
        for method in (
            lambda: p.try_complete_else_watch(Recorder(), ["k"]),
            lambda: p.defer("k"),
            lambda: p.complete("k"),
            lambda: p.check_and_complete("k"),
            lambda: p.cancel_for_key("k"),
            p.start,
        ):
            with pytest.raises(PurgatoryClosed, match="'bench' is closed"):
                method()
        assert p.stats().pending == 0

    def test_no_thread_and_no_waiter_is_left(self):
        """Closing a started purgatory ends its threads, and threads that wait for a result."""
        before = set(threading.enumerate())
        with Purgatory() as p:
            futures = [p.defer(n, timeout=3600) for n in range(100)]
            waiting = threading.Thread(target=lambda: concurrent.futures.wait(futures), daemon=True)
            waiting.start()
            p.defer("due", timeout=0).exception(HANG)
        waiting.join(HANG)
        assert not waiting.is_alive()
        assert set(threading.enumerate()) <= before
        assert all(isinstance(f.exception(0), OperationCancelled) for f in futures)

    def test_own_timer_finishes_what_waits(self):
        """With cancel_pending=False operations complete or expire before close returns."""
        p = Purgatory()
        p.start()
        soon, completed = p.defer("a", timeout=0.05), p.defer("b", timeout=3600)
        closing = threading.Thread(target=lambda: p.close(cancel_pending=False), daemon=True)
        closing.start()
        assert isinstance(soon.exception(HANG), OperationExpired)
        assert p.complete("b", 1) == 1  # still accepted while an operation is pending
        closing.join(HANG)
        assert not closing.is_alive()
        assert completed.result(0) == 1
        with pytest.raises(PurgatoryClosed):
            p.complete("b")

    def test_own_timer_gives_up_after_timeout(self):
        """Operations that do not end within the timeout are cancelled."""
        p = Purgatory()
        p.start()
        future = p.defer("a", timeout=3600)
        p.close(cancel_pending=False, timeout=0.02)
        assert isinstance(future.exception(HANG), OperationCancelled)
        assert p.delayed == 0

    @pytest.mark.parametrize("own_timer", [True, False])
    def test_all_steps_of_close_share_one_timeout(self, own_timer, harness, monkeypatch):
        """What the first step has used of the timeout is missing from the next ones."""
        p = Purgatory() if own_timer else harness.purgatory
        now_s, given = [100.0], []

        def use(name, seconds):
            given.append((name, seconds))
            now_s[0] += 0.75

        monkeypatch.setattr("purgatory.core.purgatory.real_seconds", lambda: now_s[0])
        with monkeypatch.context() as steps:
            steps.setattr(p._bus, "flush", lambda runs, seconds, wait: use("flush", seconds))
            steps.setattr(p._bus, "stop_loop", lambda seconds: use("stop_loop", seconds))
            steps.setattr(p.timer, "close", lambda **options: use("timer", options["timeout"]))
            steps.setattr(p._parts.lists.drained, "wait", lambda seconds: use("drain", seconds))
            p.close(cancel_pending=False, timeout=2)
        last = "timer" if own_timer else "drain"
        assert given == [("flush", 2), ("stop_loop", 1.25 + JOIN_GRACE_S), (last, 0.5)]
        p.timer.close()

    def test_no_thread_of_its_own_is_left(self):
        """Beside a shared timer, too, and without time: the thread ends by itself."""
        with Timer() as timer:
            for turn in range(20):
                p = Purgatory(f"turn {turn}", timer=timer)
                p.start()
                p.close(timeout=0)
                eventually(lambda: not [t for t in threading.enumerate() if "turn " in t.name])

    @pytest.mark.parametrize("timeout", [None, 0, 0.01])
    def test_an_own_timer_that_never_started_leaves_no_one_waiting(self, timeout):
        """Without a running loop pending operations are cancelled, since none would expire."""
        p = Purgatory()
        future = p.defer("a", timeout=3600)
        p.close(cancel_pending=False, timeout=timeout)
        assert isinstance(future.exception(0), OperationCancelled)

    def test_shared_timer_finishes_what_waits(self, harness):
        """With a shared timer close waits until the last operation has ended."""
        p = harness.purgatory
        op = Recorder(1)
        p.try_complete_else_watch(op, ["k"])
        closing = threading.Thread(target=lambda: p.close(cancel_pending=False), daemon=True)
        closing.start()
        while not p._parts.lists.closed:
            pass
        with pytest.raises(PurgatoryClosed):
            p.defer("k")
        harness.advance(1)
        closing.join(HANG)
        assert not closing.is_alive()
        assert op.calls == ["complete", "expiration"]

    def test_shared_timer_gives_up_after_timeout(self, harness):
        """After the timeout the rest is cancelled; the shared timer goes on."""
        p = harness.purgatory
        future = p.defer("k", timeout=3600)
        p.close(cancel_pending=False, timeout=0.01)
        assert isinstance(future.exception(0), OperationCancelled)
        assert len(harness.timer) == 0
        harness.timer.schedule(1, lambda: None)

    def test_without_wait_a_shared_timer_keeps_its_word(self, harness):
        """wait=False returns at once; the rest is cancelled after the timeout."""
        p = harness.purgatory
        soon, late = p.defer("k", timeout=1), p.defer("k", timeout=3600)
        p.close(wait=False, cancel_pending=False, timeout=5)
        assert not soon.done()
        harness.advance(1)
        assert isinstance(soon.exception(0), OperationExpired)
        harness.advance(4)
        assert isinstance(late.exception(0), OperationCancelled)

    def test_without_wait_and_a_closed_timer_it_is_over(self, harness):
        """If the timer refuses the task that would cancel them, they are cancelled at once."""
        op = Recorder()
        harness.purgatory.try_complete_else_watch(op, ["k"])
        harness.timer.add = lambda task: None
        harness.timer.close(cancel_pending=False)
        harness.purgatory.close(wait=False, cancel_pending=False, timeout=5)
        assert op.calls == ["cancel"]

    @pytest.mark.parametrize("own_timer", [True, False])
    def test_without_wait_a_stuck_callback_holds_up_nothing(self, own_timer, harness):
        """The loop is stuck in a callback: the closing thread does what was posted behind it."""
        p = Purgatory(timer=None if own_timer else harness.timer)
        p.start()
        stuck, go_on = threading.Event(), threading.Event()
        first, posted, other = p.defer("a"), p.defer("b"), p.defer("c")
        first.add_done_callback(lambda _: (stuck.set(), go_on.wait(HANG)))
        p.complete_later("a")
        assert stuck.wait(HANG)
        p.complete_later("b", 1)
        closing = threading.Thread(target=p.close, kwargs={"wait": False}, daemon=True)
        closing.start()
        closing.join(HANG / 2)
        assert not closing.is_alive()
        assert posted.result(0) == 1
        assert isinstance(other.exception(0), OperationCancelled)
        go_on.set()
        p.close()

    @pytest.mark.parametrize("lock", LOCKS)
    @pytest.mark.parametrize("own_timer", [True, False])
    @pytest.mark.parametrize("cancel_pending", [True, False])
    def test_in_the_middle_of_a_call(self, lock, own_timer, cancel_pending, harness):
        """A signal handler interrupts a call under a lock: close waits for no thread."""
        p = Purgatory(timer=None if own_timer else harness.timer)
        p.start()
        future = p.defer("k")

        def interrupted():
            with LOCKS[lock](p):
                p.complete_later("k2")
                p.close(cancel_pending=cancel_pending)

        in_thread(lambda: interrupted() or True)
        p.close()
        assert isinstance(future.exception(0), OperationCancelled)
        assert p not in live_purgatories()

    @pytest.mark.skipif(COMPILED, reason="compiled functions are not traced")
    @pytest.mark.parametrize("call", CALLS)
    def test_in_the_middle_of_a_call_for_an_operation(self, call):
        """A signal handler at any place in it closes; the loop needs the same operation."""

        def scene(at):
            p = Purgatory()
            p.start()
            future, operation = p.defer("k", "k2", need=2), Recorder()
            p.try_complete_else_watch(operation, ["k"])

            def handler():
                p.complete_later("k")
                p.fail_later("k2", ArithmeticError)
                p.close()

            def interrupted():
                with contextlib.suppress(PurgatoryClosed, concurrent.futures.InvalidStateError):
                    CALLS[call](p, future, operation)

            folders = (PURGATORY, concurrent.futures.__path__[0])
            trace = in_thread(lambda: handled_at(at, interrupted, handler, folders))
            p.close()
            assert future.done()
            assert operation.done()
            return trace

        at_every_place(scene, 4)

    @pytest.mark.skipif(COMPILED, reason="compiled functions are not traced")
    @pytest.mark.parametrize("own_timer", [True, False])
    @pytest.mark.parametrize("call", ["start", "close"])
    def test_in_the_middle_of_a_start_or_a_close(self, own_timer, call, harness):
        """A signal handler at any place in it closes; the loop needs the locks of both."""

        def scene(at):
            p = Purgatory(timer=None if own_timer else harness.timer)
            if call == "close":
                p.start()
                p.complete_later("k")

            def interrupted():
                with contextlib.suppress(PurgatoryClosed):
                    p.start() if call == "start" else p.close(wait=False)

            folders = (PURGATORY, TIMINGWHEEL)
            trace = in_thread(lambda: handled_at(at, interrupted, p.close, folders))
            p.close()
            return trace

        at_every_place(scene, 4)

    @pytest.mark.skipif(COMPILED, reason="compiled functions are not traced")
    def test_a_shared_timer_in_the_middle_of_a_call_for_an_operation(self):
        """The handler closes the timer, whose thread expires the same operation."""

        future = operation = None

        def calls():
            operation.force_complete()
            with contextlib.suppress(TimeoutError):
                future.exception(0.001)

        def scene(at):
            nonlocal future, operation
            timer = Timer(clock=(clock := ManualClock()))
            timer.start()
            p, operation = Purgatory(timer=timer), Recorder(1)
            p.try_complete_else_watch(operation, ["k"])
            future = p.defer("k", timeout=1)

            def handler():
                clock.advance(1)
                timer.close(cancel_pending=False)

            folders = (PURGATORY, concurrent.futures.__path__[0])
            trace = in_thread(lambda: handled_at(at, calls, handler, folders))
            p.close()
            timer.close()
            assert operation.calls in (["complete"], ["complete", "expiration"])
            return trace

        at_every_place(scene, 4)

    @pytest.mark.parametrize("timeout", [-1, float("nan")])
    def test_a_bad_timeout_closes_nothing(self, harness, timeout):
        """A bad timeout is refused before close has any effect."""
        future = harness.purgatory.defer("k")
        with pytest.raises(ValueError, match="timeout is"):
            harness.purgatory.close(timeout=timeout)
        with pytest.raises(TypeError):
            harness.purgatory.close(timeout="soon")
        for flag in ("wait", "cancel_pending"):
            with pytest.raises(TypeError, match=f"{flag} is 'no'; expected a bool"):
                harness.purgatory.close(**{flag: "no"})
        assert not future.done()
        assert harness.purgatory.complete("k") == 1

    def test_close_from_a_callback(self):
        """A callback on the timer's own thread may close the purgatory."""
        p = Purgatory()
        p.start()
        other = p.defer("x", timeout=3600)
        op = Hooked(0, on_complete=p.close)
        p.try_complete_else_watch(op, ["k"])
        assert isinstance(other.exception(HANG), OperationCancelled)
        p.close()
        assert p.delayed == 0

    def test_what_comes_while_it_closes_ends_or_is_refused(self):
        """Submissions racing close: each future ends, each refusal is PurgatoryClosed."""
        for attempt in range(60):
            p = Purgatory()
            p.start()
            futures = []

            def submit(p=p, futures=futures):
                try:
                    while True:
                        futures.append(p.defer("k", timeout=3600))
                except PurgatoryClosed:
                    pass

            all_in_threads(
                submit,
                submit,
                lambda p=p, n=attempt: p.close(cancel_pending=n % 2 == 0, timeout=0.001),
            )
            for future in futures:
                assert isinstance(future.exception(HANG), OperationCancelled)
            assert (p.watched, p.delayed) == (0, 0)
            p._check()


def test_no_steps_beside_the_loop():
    """While a loop runs, `step` is refused, and does nothing."""
    with Purgatory("mine") as p:
        future = p.defer("k")
        with pytest.raises(RuntimeError, match="purgatory 'mine' is started; its loop does"):
            p.step()
        assert not future.done()


class TestFork:
    @staticmethod
    def in_child(function):
        """Run a function in a forked child; what it returned, as text."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(write, repr(function()).encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as result:
            text = result.read()
        os.waitpid(pid, 0)
        return text

    def test_the_childs_copy_refuses(self):
        """Every method raises PurgatoryForked in the child; the parent is not affected."""
        with Purgatory() as p:
            future = p.defer("k", timeout=3600)
            marked = p.defer("k", timeout=3600)
            marked.set_running_or_notify_cancel()
            op = Recorder()
            p.try_complete_else_watch(op, ["k"])

            def child():
                refused = []
                for method in (
                    lambda: p.try_complete_else_watch(Recorder(), ["k"]),
                    lambda: p.defer("k"),
                    lambda: p.complete("k"),
                    lambda: p.check_and_complete("k"),
                    lambda: p.cancel_for_key("k"),
                    p.start,
                    p.step,
                    lambda: future.set_result(1),
                    lambda: future.set_exception(ValueError),
                    lambda: future.extend(5),
                    future.cancel,
                    op.cancel,
                    op.force_complete,
                    future.result,
                    future.exception,
                    lambda: future.result(0.01),
                    lambda: marked.result(0.01),
                    lambda: marked.exception(0.01),
                ):
                    try:
                        method()
                    except PurgatoryForked as error:
                        refused.append("before fork" in str(error))
                p.close()
                return refused, p.delayed

            assert self.in_child(child) == repr(([True] * 18, 3))
            assert p.complete("k", 5) == 2
            assert future.result(0) == 5

    def test_the_child_may_make_its_own(self):
        """A purgatory made in the child works, under the parent's name in the same registry."""
        registry = CollectorRegistry()
        with Purgatory("same", registry=registry) as p:
            p.defer("k", timeout=3600)

            def child():
                with Purgatory("same", registry=registry) as mine:
                    future = mine.defer("k", timeout=0.01)
                    outcome = type(future.exception(HANG)).__name__
                    return (
                        outcome,
                        registry.get_sample_value(
                            "purgatory_operations_total", {"name": "same", "outcome": "expired"}
                        ),
                        [p.name for p in live_purgatories()],
                    )

            assert self.in_child(child) == repr(("OperationExpired", 1, ["same"]))

    def test_operations_of_a_lost_purgatory_refuse_too(self, harness):
        """In the child an operation raises PurgatoryForked even if its purgatory was dropped."""
        op = Recorder()
        harness.purgatory.try_complete_else_watch(op, ["k"])
        harness.purgatory = None

        def child():
            try:
                op.cancel()
            except PurgatoryForked:
                return "refused"

        assert self.in_child(child) == repr("refused")


class TestTimerStarted:
    """A program may start the own timer of a purgatory: `p.timer.start()`."""

    @pytest.mark.parametrize("posts", [False, True])
    def test_close_returns(self, posts):
        """No thread but the closing one reads the posted calls."""
        p = Purgatory()
        p.timer.start()
        future = p.defer("k", timeout=60)
        if posts:
            p.complete_later("k", 1)
        closing = threading.Thread(target=p.close, daemon=True)
        closing.start()
        closing.join(HANG)
        assert not closing.is_alive()
        assert (future.done(), future.cancelled()) == (True, False)
        assert isinstance(future.exception(), OperationCancelled) != posts

    def test_start_runs_posted_calls_all_the_same(self):
        """A loop for them alone is started, and ends with the purgatory."""
        p = Purgatory("late")
        p.timer.start()
        with p:
            future = p.defer("k", timeout=60)
            p.complete_later("k", 1)
            assert future.result(HANG) == 1
            with pytest.raises(RuntimeError, match="is started"):
                p.step()
        assert not [t for t in threading.enumerate() if t.name.startswith("late")]


class TestNeverStarted:
    """Nothing expires in a purgatory that no thread drives: a warning says so, once."""

    def test_a_thread_that_waits_is_warned(self):
        """result() of a pending future warns, and waits all the same."""
        p = Purgatory("unlit")
        future = p.defer("k", timeout=0.001)
        with pytest.warns(RuntimeWarning, match="'unlit' was never started"):
            with pytest.raises(TimeoutError):
                future.result(0.01)
        with pytest.raises(TimeoutError):
            future.result(0.01)
        p.complete("k", 1)
        assert future.result() == 1
        p.close()

    @pytest.mark.parametrize("how", ["started", "stepped", "shared timer", "done"])
    def test_no_warning_otherwise(self, how):
        """A purgatory that was started or stepped, or was given a timer, and a done future."""
        timer = Timer() if how == "shared timer" else None
        p = Purgatory(timer=timer)
        if how == "started":
            p.start()
        elif how == "stepped":
            p.step()
        future = p.defer("k", timeout=60)
        if how == "done":
            p.complete("k")
            assert future.result() is None
        else:
            with pytest.raises(TimeoutError):
                future.result(0.01)
        p.close()

    def test_a_program_that_ends_is_warned(self):
        """Operations that wait at the end of the program could not expire."""
        program = (
            "from purgatory import Purgatory\n"
            "p = Purgatory('unlit')\n"
            "p.defer('k', timeout=1)\n"
            "q = Purgatory('idle')\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
        )
        assert "RuntimeWarning: purgatory 'unlit' was never started" in done.stderr
        assert "idle" not in done.stderr


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 12), reason="CPython 3.12 starts no thread in a handler of atexit"
)
@pytest.mark.parametrize("before", ["import purgatory", "import timingwheel", ""])
def test_the_first_in_a_handler_at_exit(before):
    """A handler of atexit may make the first purgatory, and import it there."""
    code = f"""
import atexit
{before}
def last():
    from purgatory import Purgatory
    with Purgatory() as p:
        future = p.defer("k", timeout=0.01)
        print(type(future.exception(60)).__name__)
atexit.register(last)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("OperationExpired\n", "")


@pytest.mark.parametrize("started", [False, True])
def test_close_in_a_finalizer_of_the_same_garbage(started):
    """A purgatory closes, although a collection has finalized its parts before."""
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))

    class Owner:
        def __del__(self):
            self.purgatory.close()

    owner = Owner()  # behind the parts in the collector's list
    if started:
        purgatory.start()
    future = purgatory.defer("k")
    owner.purgatory, owner.itself = purgatory, owner
    del owner, purgatory
    gc.collect()
    assert isinstance(future.exception(0), OperationCancelled)
