"""Bus: posted completions, the loop, and how it ends."""

import gc
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path

import pytest

from mq import Mailbox, MailboxClosed
from purgatory import (
    DelayedOperation,
    Purgatory,
    PurgatoryClosed,
    PurgatoryForked,
)
from purgatory.bus import loop
from purgatory.bus.commands import CompleteKey
from purgatory.bus.loop import Bus
from tests.testing.purgatory_harness import in_thread
from timingwheel import InlineExecutor, ManualClock, Timer, reaper
from timingwheel.lowlevel import InterruptibleEvent, Reaper

PATIENCE = 60


@pytest.fixture
def manual():
    """A purgatory without threads, with a clock moved by hand."""
    purgatory = Purgatory(timer=Timer(clock=ManualClock(), executor=InlineExecutor()))
    yield purgatory
    purgatory.close()


def thread_names():
    """Return the names of this process's threads."""
    return {thread.name for thread in threading.enumerate()}


def open_descriptors():
    """Return how many files this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def note_waits_of_closing(monkeypatch, note):
    """Call `note(timeout)` before the thread "closing" waits for an event."""
    real_wait = InterruptibleEvent.wait

    def wait(event, timeout=None):
        if threading.current_thread().name == "closing":
            note(timeout)
        return real_wait(event, timeout)

    monkeypatch.setattr(InterruptibleEvent, "wait", wait)


class TakenMeanwhile(deque):
    """Commands of which another thread takes one, once, between a look and the next step."""

    was_taken = False

    def popleft(self):
        if len(self) == 1 and not self.was_taken:
            self.was_taken = True
            super().popleft()
        return super().popleft()


def test_two_threads_take_commands(manual):
    """One that closes and one that steps: neither minds that the other was faster."""
    future, manual._bus._batch = manual.defer("k"), TakenMeanwhile()
    manual.complete_later("k", 1)
    manual.complete_later("k", 2)
    manual.step()
    assert future.result(0) == 1


class TestCompleteLater:
    def test_returns_at_once_and_completes_soon(self):
        """The loop's thread completes, not the posting one."""
        names = []
        with Purgatory("bus") as p:
            future = p.defer("k")
            future.add_done_callback(lambda _: names.append(threading.current_thread().name))
            assert p.complete_later("k", 7) is None
            assert future.result(PATIENCE) == 7
        assert names == ["bus-reaper"]

    def test_checks_the_condition_of_operations(self):
        """A posted completion also checks operations with a condition."""
        done = threading.Event()

        class Op(DelayedOperation):
            ready = False

            def try_complete(self):
                return self.ready and self.force_complete()

            def on_complete(self):
                done.set()

        with Purgatory() as p:
            op = Op(PATIENCE)
            p.try_complete_else_watch(op, ["k"])
            op.ready = True
            p.complete_later("k")
            assert done.wait(PATIENCE)

    def test_posts_of_one_thread_keep_their_order(self):
        """Posts of one thread are done in order; the first value of a key counts."""
        with Purgatory() as p:
            future = p.defer(*range(1000), need=1000)
            for number in range(1000):
                p.complete_later(number, number)
                p.complete_later(number, "too late")
            result = future.result(PATIENCE)
        assert list(result.items()) == [(number, number) for number in range(1000)]

    def test_eight_threads_lose_nothing(self):
        """Posts of eight threads all arrive."""
        with Purgatory() as p:
            futures = [[p.defer((t, n)) for n in range(500)] for t in range(8)]

            def post(t):
                for n in range(500):
                    p.complete_later((t, n), n)

            threads = [threading.Thread(target=post, args=(t,)) for t in range(8)]
            for thread in threads:
                thread.start()
            for own in futures:
                assert [future.result(PATIENCE) for future in own] == list(range(500))
            for thread in threads:
                thread.join()
            assert p.stats().mailbox_commands >= 4000

    def test_from_a_finalizer(self):
        """A __del__ may post, wherever the collector runs it."""

        class Connection:
            def __del__(self):
                p.complete_later("gone", "closed")

        with Purgatory() as p:
            future = p.defer("gone")
            connection = Connection()
            connection.self = connection
            del connection
            gc.collect()
            assert future.result(PATIENCE) == "closed"

    def test_from_a_signal_handler(self):
        """A signal handler may post at any moment."""
        with Purgatory() as p:
            future = p.defer("signal")
            before = signal.signal(signal.SIGUSR1, lambda *_: p.complete_later("signal", 1))
            try:
                os.kill(os.getpid(), signal.SIGUSR1)
                assert future.result(PATIENCE) == 1
            finally:
                signal.signal(signal.SIGUSR1, before)

    def test_from_a_callback_in_the_loop(self):
        """A callback that runs in the loop may post to it."""
        with Purgatory() as p:
            first, second = p.defer("a"), p.defer("b")
            first.add_done_callback(lambda _: p.complete_later("b", 2))
            p.complete_later("a", 1)
            assert second.result(PATIENCE) == 2

    def test_bad_input(self, manual):
        """An unhashable key is refused at once, by the thread that posts it."""
        with pytest.raises(TypeError, match="unhashable"):
            manual.complete_later([1])
        with pytest.raises(TypeError, match="unhashable"):
            manual.cancel_later({})
        assert manual.stats().mailbox_commands == 0

    def test_after_close(self, manual):
        """Posting after close raises PurgatoryClosed."""
        manual.close()
        with pytest.raises(PurgatoryClosed):
            manual.complete_later("k")
        with pytest.raises(PurgatoryClosed):
            manual.cancel_later("k")

    def test_a_key_that_fails_stops_nothing(self, caplog):
        """A comparison of keys that raises in the loop is logged; the next command is done."""

        class Key:
            def __init__(self, bad):
                self.bad = bad

            def __hash__(self):
                return 1

            def __eq__(self, other):
                if self.bad or other.bad:
                    raise ArithmeticError("no such comparison")
                return True

        with Purgatory() as p:
            watched, future = p.defer(Key(bad=False)), p.defer("k")
            p.complete_later(Key(bad=True))
            p.complete_later("k", 1)
            assert future.result(PATIENCE) == 1
            assert not watched.done()
        assert "no such comparison" in caplog.text


class TestCancelLater:
    def test_cancels(self):
        """The loop cancels what waits for the key."""
        with Purgatory() as p:
            future = p.defer("k")
            p.cancel_later("k")
            with pytest.raises(Exception, match="cancelled"):
                future.result(PATIENCE)


class TestLoop:
    def test_one_loop_with_a_timer_of_its_own(self):
        """Commands and deadlines share one thread; a worker appears with the first expiry."""
        before = thread_names()
        # Of one worker: on a busy machine a second one would help the first.
        with Purgatory("mine", executor_workers=1) as p:
            assert thread_names() - before == {"mine-reaper"}
            with pytest.raises(TimeoutError):
                p.defer("k", timeout=0.01).result(PATIENCE)
            assert thread_names() - before == {"mine-reaper", "mine-executor"}
        assert thread_names() == before

    def test_a_loop_for_commands_alone_on_a_shared_timer(self):
        """On a shared timer the purgatory has a loop of its own; the timer is not started."""
        before = thread_names()
        timer = Timer(clock=ManualClock(), executor=InlineExecutor())
        with Purgatory("mine", timer=timer) as p:
            assert thread_names() - before == {"mine-bus"}
            future = p.defer("k")
            p.complete_later("k", 1)
            assert future.result(PATIENCE) == 1
        assert thread_names() == before

    def test_an_earlier_deadline_wakes_it(self):
        """An earlier deadline wakes the loop."""
        with Purgatory() as p:
            p.defer("far", timeout=3600)
            near = p.defer("near", timeout=0.02)
            with pytest.raises(TimeoutError):
                near.result(PATIENCE)

    def test_commands_do_not_keep_deadlines_waiting(self):
        """A stream of posts is done in batches, with a look at the clock between them."""
        stop = threading.Event()
        with Purgatory() as p:

            def post():
                while not stop.is_set():
                    p.complete_later("unwatched")

            thread = threading.Thread(target=post)
            thread.start()
            try:
                with pytest.raises(TimeoutError):
                    p.defer("k", timeout=0.05).result(PATIENCE)
            finally:
                stop.set()
                thread.join()

    def test_step_without_threads(self, manual):
        """Without a loop, step does what was posted."""
        future = manual.defer("k")
        manual.complete_later("k", 1)
        assert not future.done()
        assert manual.stats().mailbox_depth == 1
        assert manual.step() is False
        assert future.result(0) == 1
        assert manual.stats().mailbox_depth == 0

    def test_step_advances_its_own_timer(self):
        """step advances the purgatory's own timer, and waits until its next deadline at most."""
        p = Purgatory()
        future = p.defer("k", timeout=0.02)
        while not future.done():
            p.step(0.05)
        assert isinstance(future.exception(), TimeoutError)
        p.close()

    def test_step_beside_a_loop_is_refused(self):
        """step is refused while a loop runs: a mailbox has one reader."""
        with Purgatory() as p, pytest.raises(RuntimeError, match="loop"):
            p.step()


class Starting(Reaper):
    """A loop that calls `meanwhile` in another thread when it is about to start."""

    meanwhile = None

    def start(self):
        meanwhile, Starting.meanwhile = Starting.meanwhile, None
        if meanwhile is not None:
            in_thread(lambda: meanwhile() or True)
        super().start()


class TestStart:
    @pytest.fixture(autouse=True)
    def starting(self, monkeypatch):
        monkeypatch.setattr(loop, "Reaper", Starting)
        monkeypatch.setattr(Starting, "meanwhile", None)

    def test_a_second_start_beside_the_first(self, manual):
        """One loop starts, and close ends the loop."""
        before = thread_names()
        Starting.meanwhile = manual.start
        manual.start()
        names = [thread.name for thread in threading.enumerate() if thread.name not in before]
        assert names == ["purgatory-bus"]
        in_thread(lambda: manual.close() or True)
        assert thread_names() == before

    def test_close_beside_start(self, manual):
        """The loop that starts too late ends, and start says why."""
        before = set(threading.enumerate())
        Starting.meanwhile = manual.close
        with pytest.raises(PurgatoryClosed):
            manual.start()
        for thread in set(threading.enumerate()) - before:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def test_a_loop_does_not_start_behind_close(self, manual):
        """A thread has found the purgatory open, and is late."""
        before = thread_names()
        manual.close()
        manual._bus.start_loop()
        assert thread_names() == before
        assert not manual._bus.loop_runs()

    def test_close_beside_start_with_an_own_timer(self, monkeypatch):
        """The timer is closed when start comes to it."""
        p = Purgatory()
        start = p.timer.start
        monkeypatch.setattr(p.timer, "start", lambda waiter: (p.close(), start(waiter)))
        with pytest.raises(PurgatoryClosed):
            p.start()

    def test_start_again_after_an_error(self, manual, monkeypatch):
        """The system has no thread left, for a moment."""

        def refuse(thread):
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="can't start"):
                manual.start()
        manual.start()
        future = manual.defer("k")
        manual.complete_later("k", 1)
        assert future.result(PATIENCE) == 1
        manual.close()


class TestTwoReaders:
    @pytest.fixture
    def bus(self):
        """A bus of which another thread reads all the time."""
        bus, ended = Bus("b", print), threading.Event()

        def read():
            while not ended.is_set():
                bus.do_posted(None)

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        yield bus
        ended.set()
        bus.wake()
        reading.join(PATIENCE)

    def test_a_step_waits_no_longer_than_its_time(self, bus):
        """The other thread sleeps in the mailbox until a command comes."""
        while not bus.mailbox.waiting:
            bus._reader.wait_unless_ended(threading.Event(), 0.001)
        in_thread(lambda: bus.do_posted(0) or True)
        in_thread(lambda: bus.do_posted(0.001) or True)

    def test_a_closing_thread_lets_the_other_do_the_commands(self, bus):
        """The loop began after the closing thread had looked for a loop."""
        in_thread(lambda: bus.flush(lambda: False, None) or True)

    def test_after_the_other_it_does_not_wait_for_a_command(self):
        """Its time counts once, for the lock and the mailbox together."""

        class Taken:
            """A lock that another thread has at the first look."""

            looks = 0

            def acquire(self, *_):
                self.looks += 1
                return self.looks > 1

            def release(self):
                pass

        bus = Bus("b", print)
        bus._reading = Taken()
        in_thread(lambda: bus.do_posted(10 * PATIENCE) or True)
        assert bus._reading.looks == 2


class TestClose:
    @pytest.mark.parametrize("started", [True, False])
    @pytest.mark.parametrize("shared", [True, False])
    def test_what_was_posted_before_is_done(self, started, shared):
        """Commands posted before close are done: futures have values, not OperationCancelled."""
        timer = Timer(clock=ManualClock(), executor=InlineExecutor()) if shared else None
        p = Purgatory(timer=timer)
        if started:
            p.start()
        futures = [p.defer(number) for number in range(2000)]
        for number in range(2000):
            p.complete_later(number, number)
        p.close()
        assert [future.result(0) for future in futures] == list(range(2000))

    def test_from_the_loop_itself(self):
        """A callback in the loop may close; commands posted behind it are still done."""
        p = Purgatory()
        p.start()
        posted = threading.Event()
        zeroth, first, second, third = [p.defer(key) for key in "0abc"]
        # The loop waits, or it might close before the others are posted.
        zeroth.add_done_callback(lambda _: posted.wait(PATIENCE))
        first.add_done_callback(lambda _: p.close())
        for key in "0ab":
            p.complete_later(key, key)
        posted.set()
        assert second.result(PATIENCE) == "b"
        with pytest.raises(Exception, match="cancelled"):
            third.result(PATIENCE)
        p.close()

    def test_waits_for_a_busy_loop_without_waking_up(self, monkeypatch):
        """A closing thread sleeps until the loop has done what was posted; it does not poll."""
        waits = []
        busy, go_on, waiting = threading.Event(), threading.Event(), threading.Event()
        note_waits_of_closing(monkeypatch, lambda timeout: (waits.append(timeout), waiting.set()))
        p = Purgatory()
        p.start()
        future = p.defer("k")
        future.add_done_callback(lambda _: (busy.set(), go_on.wait(PATIENCE)))
        p.complete_later("k")
        assert busy.wait(PATIENCE)
        closing = threading.Thread(target=p.close, name="closing")
        closing.start()
        assert waiting.wait(PATIENCE)
        go_on.set()
        closing.join(PATIENCE)
        assert not closing.is_alive()
        assert waits == [None]

    def test_a_loop_that_ends_leaves_nothing_undone(self):
        """If the loop's thread ends before it has read all, the waiting thread does the rest."""
        done, read, end = [], threading.Event(), threading.Event()

        def do_command(command):
            done.append((command.key, command.value, threading.current_thread().name))

        bus = Bus("b", do_command)

        def loop():
            bus.wait(PATIENCE)
            read.set()
            end.wait(PATIENCE)

        looping = threading.Thread(target=loop)
        looping.start()
        bus.wake()
        assert read.wait(PATIENCE)
        bus.post(CompleteKey("k", 1))
        flushing = threading.Thread(target=bus.flush, args=(lambda: True, None), name="flushing")
        flushing.start()
        while bus.mailbox.depth < 2:
            flushing.join(0.001)
        assert done == []
        end.set()
        flushing.join(PATIENCE)
        assert not flushing.is_alive()
        assert done == [("k", 1, "flushing")]

    def test_beside_another_closing_thread(self):
        """The other thread closes the mailbox after this thread has looked: nothing is left."""

        class ClosedMeanwhile(Mailbox):
            closed = False

            def send(self, command):
                raise MailboxClosed("closed meanwhile")

        bus = Bus("b", print)
        bus.mailbox = ClosedMeanwhile()
        bus.flush(lambda: False, None)
        assert bus.mailbox.depth == 0

    def test_a_loop_that_ends_before_its_first_look(self, monkeypatch):
        """The last operation completes, and the loop ends, before the loop has read anything."""
        go_on, waiting = threading.Event(), threading.Event()
        monkeypatch.setattr(reaper, "reduce_timer_slack", lambda: go_on.wait(PATIENCE))
        note_waits_of_closing(monkeypatch, lambda _: waiting.set())
        p = Purgatory()
        p.start()
        future = p.defer("k")
        closing = threading.Thread(target=p.close, name="closing", daemon=True)
        closing.start()
        assert waiting.wait(PATIENCE)
        p.complete("k", 1)
        go_on.set()
        closing.join(PATIENCE)
        assert not closing.is_alive()
        assert future.result(0) == 1

    def test_leaves_no_thread_and_no_descriptor(self):
        """A hundred purgatories leave no thread and no descriptor behind."""

        def run():
            with Purgatory(executor_workers=2) as p:
                p.complete_later("k")
                with pytest.raises(TimeoutError):
                    p.defer("k2", timeout=0.001).result(PATIENCE)

        run()
        threads, descriptors = thread_names(), open_descriptors()
        for _ in range(100):
            run()
        assert thread_names() == threads
        assert open_descriptors() <= descriptors + 2


class TestFork:
    def test_the_child_is_refused(self, manual):
        """Posting in a forked child raises; the parent's mailbox is not touched."""
        pid = os.fork()
        if not pid:
            try:
                manual.complete_later("k")
            except PurgatoryForked:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        future = manual.defer("k")
        manual.complete_later("k", 1)
        manual.step()
        assert future.result(0) == 1


def test_an_idle_purgatory_sleeps():
    """Its threads sleep some ten times in two seconds, and do not look again and again.

    A thread that never slept would take all of the two seconds of CPU time.
    """
    code = """
import resource
import time
from purgatory import Purgatory
def sleeps():
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
with Purgatory() as p:
    before, cpu = sleeps(), time.process_time()
    p.defer("k", timeout=2).exception()
    print(sleeps() - before, time.process_time() - cpu)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    sleeps, seconds = done.stdout.split()
    assert int(sleeps) < 40
    assert float(seconds) < 1
