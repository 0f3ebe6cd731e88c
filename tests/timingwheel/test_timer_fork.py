"""fork: the child's copy of a timer raises TimerForked at once; the parent's goes on."""

import os
import threading
import traceback

import pytest

from timingwheel import InlineExecutor, Timer, TimerForked, TimerTask

REFUSED = {
    "schedule": lambda timer, task: timer.schedule(1, print),
    "schedule 0": lambda timer, task: timer.schedule(0, print),
    "add": lambda timer, task: timer.add(TimerTask(1, print)),
    "rearm": lambda timer, task: timer.add(task),
    "cancel": lambda timer, task: task.cancel(),
    "advance": lambda timer, task: timer.advance_clock(),
    "advance and wait": lambda timer, task: timer.advance_clock(60),
    "start": lambda timer, task: timer.start(),
    "delay_to_next": lambda timer, task: timer.delay_to_next(),
    "stats": lambda timer, task: timer.stats(),
    "levels": lambda timer, task: timer.levels(),
}


def in_child(check):
    """Run a function in a forked child, and assert that it succeeds there."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            check()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    done = threading.Event()
    killer = threading.Timer(60, lambda: done.is_set() or os.kill(pid, 9))
    killer.start()
    _, status = os.waitpid(pid, 0)
    done.set()
    killer.cancel()
    killer.join()
    assert os.waitstatus_to_exitcode(status) == 0


def holding(*locks):
    """A thread that holds locks while the process forks."""
    held, go = threading.Event(), threading.Event()

    def hold():
        for lock in locks:
            lock.acquire()
        held.set()
        go.wait(60)
        for lock in locks:
            lock.release()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    return go, thread


@pytest.mark.parametrize("started", [True, False])
def test_child_refuses(started):
    """Each use raises TimerForked, though another thread held every lock when it forked."""
    timer = Timer()
    if started:
        timer.start()
    task = timer.schedule(1000, print)
    go, thread = holding(
        timer._lock._turnstile,
        timer._lock._lock,
        timer._wheel_state.queue._lock,
        timer._runner.lateness._lock,
        timer._executor._lock,
    )

    def check():
        for use in REFUSED.values():
            with pytest.raises(TimerForked, match="made before fork"):
                use(timer, task)
        assert len(timer) == 1
        assert "1 pending" in repr(timer)
        assert (task.done(), task.cancelled()) == (False, False)
        timer.close()
        timer.close(cancel_pending=False, timeout=1)

    in_child(check)
    go.set()
    thread.join()
    assert task.cancel()
    timer.close()


def test_parent_goes_on():
    """A child that used and closed its copy changes nothing in the parent."""
    fired = threading.Event()
    with Timer() as timer:
        timer.schedule(0.2, fired.set)
        in_child(timer.close)
        assert fired.wait(30)


def test_child_may_leave_the_with_block():
    """Leaving a `with` block in the child does nothing; entering one raises."""
    with Timer() as timer:

        def check():
            timer.__exit__(None, None, None)
            with pytest.raises(TimerForked):
                timer.__enter__()

        in_child(check)


def test_child_makes_its_own():
    """A timer made in the child works there."""

    def check():
        fired = threading.Event()
        with Timer() as timer:
            timer.schedule(0.01, fired.set)
            assert fired.wait(30)

    old = Timer()
    old.start()
    in_child(check)
    old.close()


def test_fork_from_a_task():
    """In the child the rest of the bucket is not run a second time."""
    ran, children = [], []
    timer = Timer(executor=InlineExecutor())

    def fork():
        pid = os.fork()
        if pid == 0:
            try:
                timer.schedule(1, print)
            except TimerForked:
                os._exit(0)
            os._exit(1)
        children.append(os.waitpid(pid, 0)[1])

    timer.schedule(0.001, fork)
    timer.schedule(0.001, ran.append, 1)
    while len(ran) == 0:
        timer.advance_clock(1)
    assert (ran, children) == ([1], [0])
    timer.close()
