"""Leases are kept in time, and lost in time, by a clock that the test moves."""

import contextlib

import pytest

from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.leases.lease_keeper import JOIN_S, KeptLease, LeaseKeeper
from purgatory.service.errors import RequestAbandoned, Unavailable


class Bench:
    """A keeper whose thread is the test, with a lease of 30 seconds from 100 on."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(LeaseKeeper, "_start", lambda _self: None)
        self.now = 100.0
        self.asked = []
        self.lost = []
        self.error = None
        self.keeper = LeaseKeeper(self.keep, lambda: self.now, "keeper")
        self.lease = KeptLease("n", "h", 30_000, self.now, lambda: self.lost.append("h"))
        self.keeper.add(self.lease)

    def keep(self, name, holder, keep_ms):
        if self.error is not None:
            raise self.error
        assert (name, holder, keep_ms) == ("n", "h", 30_000)
        self.asked.append(ReplyFuture())
        return self.asked[-1]

    def step_at(self, now):
        self.now = now
        self.keeper.step()
        return len(self.asked)


@pytest.fixture
def bench(monkeypatch):
    return Bench(monkeypatch)


def test_it_is_asked_for_three_times_in_its_time(bench):
    """Once more only when the server has answered; the time counts from the request."""
    assert bench.step_at(109.9) == 0
    assert bench.step_at(110) == 1
    assert bench.step_at(115) == 1
    bench.now = 119.0
    bench.asked[0].set_result(True)
    assert bench.lease.ends_at == pytest.approx(110 + 29.97)
    assert bench.step_at(119.9) == 1
    assert bench.step_at(120) == 2
    assert bench.lost == []


def test_another_has_it(bench):
    """The answer says so: it is lost at once, and not asked for any more."""
    bench.step_at(110)
    bench.asked[0].set_result(False)
    assert bench.lost == ["h"]
    assert bench.step_at(200) == 1
    assert not bench.keeper.remove(bench.lease)


def test_no_answer(bench):
    """It is lost before the server gives it away: a thousandth before its time."""
    bench.step_at(110)
    bench.step_at(129.9)
    assert bench.lost == []
    bench.step_at(129.97)
    assert bench.lost == ["h"]
    bench.asked[0].set_result(True)
    assert bench.step_at(200) == 1


@pytest.mark.parametrize("error", [RequestAbandoned("lost"), OSError()])
def test_an_answer_that_says_nothing(bench, error):
    """It is asked for again, a second later; the time still counts from what was granted."""
    bench.step_at(110)
    bench.asked[0].set_exception(error)
    assert bench.step_at(110.9) == 1
    assert bench.step_at(111) == 2
    bench.asked[1].set_result(True)
    assert bench.lease.asked_at == 111
    assert bench.lost == []


def test_a_closed_client(bench):
    """It can ask for nothing: the lease ends by time."""
    bench.error = Unavailable("closed")
    bench.step_at(110)
    assert bench.lost == []
    bench.step_at(130)
    assert bench.lost == ["h"]


def test_close(bench):
    """All are lost at once."""
    bench.keeper.close()
    assert bench.lost == ["h"]


def test_removed(bench):
    """It is neither asked for nor lost."""
    assert bench.keeper.remove(bench.lease)
    assert bench.step_at(500) == 0
    assert bench.lost == []


class Changed(contextlib.nullcontext):
    """The keeper's condition: passes the time of a wait at once; counts notifications."""

    def __init__(self, bench):
        super().__init__()
        self.slept = []
        self.notified = 0
        self._bench = bench

    def wait(self, seconds):
        assert len(self.slept) < 9
        self.slept.append(seconds)
        self._bench.now += seconds

    def notify(self):
        self.notified += 1


def test_the_thread_sleeps_until_a_lease_is_due(bench):
    """Until it asks, then until the lease is lost without an answer; with no lease it ends."""
    bench.keeper._changed = changed = Changed(bench)
    bench.keeper.run()
    assert changed.slept == pytest.approx([10, 19.97])
    assert (len(bench.asked), bench.lost) == (1, ["h"])


def test_a_due_lease_is_not_waited_for(bench):
    """A thread that comes late goes on at once."""
    for now, seconds in ((100, 10), (110, 0), (500, 0)):
        bench.now = now
        assert bench.keeper.sleep_seconds() == seconds


def test_what_wakes_the_thread(bench):
    """A new lease, a lease that ends, and an answer: all change how long it sleeps."""
    bench.keeper._changed = changed = Changed(bench)
    bench.step_at(110)
    assert changed.notified == 0
    bench.asked[0].set_result(True)
    assert changed.notified == 1
    bench.keeper.remove(bench.lease)
    assert changed.notified == 2
    bench.keeper.add(bench.lease)
    assert changed.notified == 3


class Threads:
    """The threads that a keeper has started, of which the first so many fail; none runs."""

    def __init__(self, failing=0):
        self.started = 0
        self.joined = []
        self.woken = 0
        self.failing = failing
        self.keeper = LeaseKeeper(None, lambda: 0.0, "keeper", self.make)
        self.leases = [KeptLease("n", holder, 30_000, 0.0, list) for holder in "abc"]

    def make(self, loop, name):
        assert (loop, name) == (self.keeper, "keeper")
        return self

    def start(self):
        self.started += 1
        if self.started <= self.failing:
            raise RuntimeError("can't start new thread")

    def wake(self):
        self.woken += 1

    def join(self, timeout):
        assert not self.keeper._leases
        self.joined.append(timeout)


def test_close_waits_for_the_thread():
    """All leases are lost before; the wait is bounded, for an answer may not come."""
    threads = Threads()
    threads.keeper.add(threads.leases[0])
    threads.keeper.close()
    assert threads.joined == [JOIN_S]


def test_a_thread_that_cannot_be_started():
    """The lease is not kept, and the next has another try."""
    threads = Threads(failing=1)
    with pytest.raises(RuntimeError):
        threads.keeper.add(threads.leases[0])
    assert not threads.keeper.remove(threads.leases[0])
    for lease in threads.leases[1:]:
        threads.keeper.add(lease)
    assert threads.started == 2


def test_the_thread_ends_with_the_last_lease():
    """The next lease gets another thread; before, all share one."""
    threads = Threads()
    first, second, third = threads.leases
    for lease in (first, second):
        threads.keeper.add(lease)
        assert not threads.keeper.finished()
    threads.keeper.remove(first)
    assert not threads.keeper.finished()
    threads.keeper.remove(second)
    assert threads.started == 1
    assert threads.keeper.finished()
    threads.keeper.add(third)
    assert (threads.started, threads.woken) == (2, 5)
