"""What the handles of threads and of coroutines share, against scripted answers."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from purgatory.service import LeaseTimeout, RequestTimeout, TooManyLeases
from purgatory.service.client.leases import lease_owner
from purgatory.service.client.leases.async_lease_handle import AsyncLeaseHandle
from purgatory.service.client.leases.lease_calls import WAIT_MS
from purgatory.service.client.leases.lease_handle import LeaseHandle
from purgatory.service.client.leases.lease_owner import LeaseTerms
from tests.testing.interrupts import at_every_place, interrupted_at

FOLDER = str(Path(lease_owner.__file__).parent)


class ScriptedCalls:
    """A server's answers to one that asks for a lease, each after so many seconds."""

    def __init__(self, answers):
        self.answers, self.asked, self.ended, self.kept = answers, [], [], []
        self.seconds = 100.0
        self.keeper = SimpleNamespace(add=self.kept.append, remove=self._remove)

    def _remove(self, kept):
        is_kept = kept in self.kept
        self.kept[:] = [each for each in self.kept if each is not kept]
        return is_kept

    def now(self):
        return self.seconds

    def new_holder(self):
        return "me"

    def expect(self, name, holder, ready):
        self.ready = ready

    def forget(self, name, holder):
        """There is nothing to forget."""

    def pass_time(self, done, seconds):
        return seconds

    def end(self, name, holder):
        self.ended.append(holder)

    def take(self, name, holder, keep_ms, wait_ms):
        self.asked.append(wait_ms)

    def wait(self, take, seconds):
        """Answer; whoever is to ask again need not wait."""
        after, answer = self.answers.pop(0)
        assert after <= seconds
        self.seconds += after
        self.ready()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def await_it(self, take, seconds):
        return self.wait(take, seconds)


def entering(way, calls, keep):
    """Return a call that enters a lease, with a timeout of 5 s."""
    terms = LeaseTerms("n", keep, 5)
    if way == "thread":
        return LeaseHandle(calls, calls.wait, terms).__enter__
    handle = AsyncLeaseHandle(calls, calls.await_it, terms)
    return lambda: asyncio.run(handle.__aenter__())


@pytest.mark.parametrize("way", ["thread", "coroutine"])
def test_an_answer_that_comes_after_the_end_of_the_lease(way):
    """The program asks again: the server may have waited for its database meanwhile."""
    calls = ScriptedCalls([(3.0, 7), (0.5, 8)])
    assert entering(way, calls, keep=3)().token == 8
    assert [kept.asked_at for kept in calls.kept] == [103.0]
    late = ScriptedCalls([(3.0, 7), (2.0, 7)])
    with pytest.raises(LeaseTimeout):
        entering(way, late, keep=2)()
    assert late.ended == ["me"]


@pytest.mark.parametrize(
    ("answers", "error", "asked"),
    [
        ([(0.0, 7)], None, [5000]),
        ([(4.0, None), (0.0, 7)], None, [5000, 1000]),
        ([(4.0, RequestTimeout("slow")), (0.5, 7)], None, [5000, 1000]),
        ([(5.0, None)], LeaseTimeout, [5000]),
        ([(5.0, RequestTimeout("slow"))], RequestTimeout, [5000]),
        ([(4.5, None), (0.5, RequestTimeout("slow"))], RequestTimeout, [5000, 500]),
        ([(0.0, TooManyLeases("no"))], TooManyLeases, [5000]),
    ],
)
@pytest.mark.parametrize("way", ["thread", "coroutine"])
def test_asking_until_the_deadline(answers, error, asked, way):
    """It asks again until then; who does not get the lease gives back the place in the queue."""
    calls = ScriptedCalls(list(answers))
    enter = entering(way, calls, keep=30)
    if error is None:
        assert enter().token == 7
    else:
        with pytest.raises(error):
            enter()
    assert (calls.asked, calls.answers) == (asked, [])
    assert (len(calls.kept), calls.ended) == ((1, []) if error is None else (0, ["me"]))


def test_a_lease_that_no_thread_keeps():
    """It is given up, and the handle can be entered again."""
    calls = ScriptedCalls([(0, 7), (0, 8)])

    def fail(kept):
        raise RuntimeError("can't start new thread")

    add, calls.keeper.add = calls.keeper.add, fail
    handle = LeaseHandle(calls, calls.wait, LeaseTerms("n", 30, 5))
    with pytest.raises(RuntimeError, match="new thread"):
        handle.__enter__()
    assert calls.ended == ["me"]
    calls.keeper.add = add
    assert handle.__enter__().token == 8


def test_an_interrupt_while_it_is_entered():
    """Wherever it comes: the lease is given up, and the handle can be entered again."""

    def scene(place):
        calls = ScriptedCalls([(0, 7), (0, 8)])
        handle = LeaseHandle(calls, calls.wait, LeaseTerms("n", 30, 5))
        interrupter = interrupted_at(place, handle.__enter__, (FOLDER,))
        if interrupter.fired:
            assert handle.__enter__().token >= 7, interrupter.where
            assert (len(calls.kept), handle._kept) == (1, calls.kept[0]), interrupter.where
        return interrupter

    at_every_place(scene, at_least=5)


def test_the_shortest_lease():
    """Shorter ones are refused."""
    least_s = lease_owner._MIN_KEEP_MS / 1000
    assert LeaseTerms("n", least_s, None).keep_ms == lease_owner._MIN_KEEP_MS
    with pytest.raises(ValueError, match=f"expected at least {least_s} s"):
        LeaseTerms("n", least_s - 0.001, None)


@pytest.mark.parametrize(
    ("timeout", "now", "wait_ms"),
    [(None, 5.0, 1000 * WAIT_MS), (0, 5.0, 0), (2.5, 5.0, 2500), (2.5, 7.0, 500), (2.5, 8.0, 0)],
)
def test_how_long_the_server_keeps_the_place(timeout, now, wait_ms):
    """Until the deadline of one that began at 5 s, and no longer than WAIT_MS."""
    terms = LeaseTerms("n", 30, timeout)
    assert terms.wait_ms(terms.deadline(5.0), now) == min(wait_ms, WAIT_MS)


@pytest.mark.parametrize(("timeout", "seconds"), [(5, 5.0), (1, 1.0), (0.5, 1.0), (0, 1.0)])
def test_how_long_an_answer_is_awaited(timeout, seconds):
    """Until the deadline, and for a second at least: a server that is asked may answer late."""
    calls, waited = ScriptedCalls([]), []

    def wait(take, seconds):
        waited.append(seconds)
        return 7

    LeaseHandle(calls, wait, LeaseTerms("n", 30, timeout)).__enter__()
    assert waited == [seconds]


@pytest.mark.parametrize("is_entered", [False, True])
@pytest.mark.parametrize("is_lost", [False, True])
def test_what_leaving_a_block_ends(is_entered, is_lost):
    """The lease, if it was taken and is not lost; it waits for the answer while the lease lasts."""
    calls, waited = ScriptedCalls([]), []
    calls.keeper.remove = lambda kept: not is_lost

    def wait(take, seconds):
        waited.append(seconds)
        return 7

    handle = LeaseHandle(calls, wait, LeaseTerms("n", 30, 5))
    if is_entered:
        handle.__enter__()
    for _ in range(2):
        handle.__exit__()
    ends = is_entered and not is_lost
    assert calls.ended == (["me"] if ends else [])
    assert waited == [5.0] * is_entered + [30.0] * ends
