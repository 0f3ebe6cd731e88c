"""OutcomeRecorder: extends and reports, whichever thread made an operation."""

import threading
import warnings

import pytest

from purgatory import DelayedOperation, Purgatory
from tests.testing.counting_waiter import CountingWaiter
from tests.testing.purgatory_harness import HANG, Hooked, PurgatoryHarness, in_thread


def submitted(p):
    """Return an operation that waits."""
    operation = DelayedOperation(30)
    p.try_complete_else_watch(operation, ["k"])
    return operation


def test_any_thread_extends_and_ends_what_another_made():
    """Whichever copy an operation refers to, it belongs to its purgatory, and to no other."""
    p, other = PurgatoryHarness().purgatory, PurgatoryHarness().purgatory
    for make in (lambda: submitted(p), lambda: in_thread(lambda: submitted(p))):
        operation = make()
        assert p.extend(operation, 60)
        assert in_thread(lambda operation=operation: p.extend(operation, 90))
        with pytest.raises(ValueError, match="is not pending in purgatory"):
            other.extend(operation, 60)
        assert operation.delay_ms == 90_000
    future = in_thread(lambda: p.defer("k", timeout=1))
    assert future.extend(2)
    assert p.complete("k") == 1
    p.cancel_for_key("k")
    assert (p.stats().completed, p.stats().cancelled) == (1, 2)
    p._check()


def test_one_warning_for_all_threads():
    """A purgatory that was never started warns once, whichever threads wait for its futures."""
    p = Purgatory("unlit")

    def wait():
        with pytest.raises(TimeoutError):
            p.defer("k").result(0)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wait()
        in_thread(wait)
    assert [str(w.message)[:42] for w in caught] == ["purgatory 'unlit' was never started, so no"]
    p.close()


def test_the_last_end_wakes_the_loop():
    """After close it must not sleep until a deadline that does not matter any more."""
    p, waiter = Purgatory(), CountingWaiter()
    one, two = p.defer("a", timeout=10**6), p.defer("b", timeout=10**6)
    p.close(wait=False, cancel_pending=False)
    p.timer.change_waiters(add=waiter)
    p.complete("a", 1)
    assert waiter.wakes == 0
    p.complete("b", 2)
    assert waiter.wakes
    assert (one.result(0), two.result(0)) == (1, 2)


def test_errors_of_all_threads_are_reported():
    """What a callback raises goes to `on_error`, whichever thread made the operation."""

    class Failing(DelayedOperation):
        def on_complete(self):
            raise ZeroDivisionError

    harness = PurgatoryHarness()
    p = harness.purgatory

    def submit():
        operation = Failing(30)
        p.try_complete_else_watch(operation, ["k"])
        return operation

    for operation in (submit(), in_thread(submit)):
        operation.force_complete()
    assert [type(error) for error, _ in harness.errors] == [ZeroDivisionError] * 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_exit_of_on_error_reaches_the_caller(error):
    """In the main thread; in another thread it ends nothing."""

    def on_error(*_):
        raise error

    p = PurgatoryHarness(on_error=on_error).purgatory
    operations = [Hooked(on_complete=lambda: 1 / 0) for _ in range(2)]
    for operation in operations:
        p.try_complete_else_watch(operation, ["k"])
    assert in_thread(operations[0].force_complete)
    with pytest.raises(error):
        operations[1].force_complete()
    assert p.stats().completed == 2


def test_the_last_end_waits_for_no_task():
    """The thread that ends the last operation of a closing purgatory goes on at once."""
    p, begun, go = Purgatory(), threading.Event(), threading.Event()
    p.defer("a", timeout=10**6)
    p.timer.schedule(0, lambda: (begun.set(), go.wait(HANG)))
    assert begun.wait(HANG)
    p.close(wait=False, cancel_pending=False)
    p.complete("a", 1)
    assert p.timer.stats().fired == 1
    assert [t.name for t in threading.enumerate() if t.name.startswith(p.timer.name)]
    go.set()
    p.close()
