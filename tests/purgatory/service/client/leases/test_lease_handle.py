"""Named leases of programs, at a real server."""

import asyncio
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from purgatory.service import AsyncClient, LeaseTimeout, RequestTimeout, TooManyLeases
from purgatory.service.client.leases import lease_handle
from purgatory.service.client.leases.lease_calls import WAIT_MS
from purgatory.service.client.leases.lease_handle import AsyncLeaseHandle, LeaseHandle, LeaseTerms
from purgatory.service.server.named_leases import named_leases
from tests.testing.purgatory_harness import HANG

HOLDER = """
import sys
from purgatory.service import Client
with Client(sys.argv[1]) as client, client.lease("n", keep=1) as lease:
    print(lease.token, flush=True)
    sys.stdin.read()
"""


def in_thread(call):
    """Run a call in a thread; returns the thread."""
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_one_program_has_it(server, connect):
    """Another one times out, and has it later, with a higher token."""
    one, two = connect(server), connect(server)
    with one.lease("n", keep=HANG) as lease:
        assert lease.name == "n"
        assert not lease.lost.is_set()
        assert repr(lease) == "<LeaseHandle 'n', held>"
        with pytest.raises(LeaseTimeout, match=r"program held lease 'n' for 0\.01 s") as caught:
            two.lease("n", timeout=0.01).__enter__()
        assert isinstance(caught.value, TimeoutError)
        with two.lease("other", timeout=0) as other:
            assert other.token > lease.token
        with pytest.raises(RuntimeError, match="held by this handle already"):
            lease.__enter__()
    assert repr(lease) == "<LeaseHandle 'n', not held>"
    with two.lease("n", timeout=0) as later:
        assert later.token > lease.token
    assert server.state.named_leases.by_name == {}


def test_an_error_in_the_block(server, connect):
    """The lease is ended."""
    client = connect(server)
    with pytest.raises(KeyError), client.lease("n"):
        raise KeyError
    assert server.state.named_leases.by_name == {}


def test_waiters_in_turn(server, connect):
    """Each has it when the one before has ended it, in the order in which they came."""
    order, threads = [], []

    def wait(number):
        with connect(server).lease("n", keep=HANG, timeout=HANG) as lease:
            order.append((number, lease.token))

    leases = server.state.named_leases
    with connect(server).lease("n", keep=HANG):
        for number in range(4):
            threads.append(in_thread(lambda number=number: wait(number)))
            while len(leases.by_name["n"].waiters) <= number:
                threads[-1].join(0.001)
    for thread in threads:
        thread.join(HANG)
    assert [number for number, _ in order] == [0, 1, 2, 3]
    assert order == sorted(order)


def test_a_holder_that_dies(server, connect):
    """The next one has it when its time is over; while it lives, it is kept for longer."""
    command = [sys.executable, "-c", HOLDER, server.address]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as holder:
        token = int(holder.stdout.readline())
        client = connect(server)
        with pytest.raises(LeaseTimeout):
            client.lease("n", timeout=2.5).__enter__()
        holder.kill()
        with client.lease("n", timeout=HANG) as lease:
            assert lease.token > token


def test_a_restart_of_the_server(tmp_path, serve, connect):
    """The lease lasts, and its holder keeps it; tokens grow."""
    data = tmp_path / "data"
    first = serve(data_dir=data)
    one, two = connect(first), connect(first)
    with one.lease("n", keep=HANG) as lease:
        first.close()
        second = serve(data_dir=data, bind=first.address)
        with pytest.raises(LeaseTimeout):
            two.lease("n", timeout=0).__enter__()
        assert not lease.lost.is_set()
        kept = one.lease_calls.keep("n", second.state.named_leases.by_name["n"].held.holder, 1000)
        assert kept.result(HANG)
    with two.lease("n", timeout=HANG) as later:
        assert later.token > lease.token


def test_a_lease_that_is_lost(server, connect):
    """The event tells, and the end says nothing; the handle's next lease has another event."""
    client = connect(server)
    with client.lease("n", keep=0.3) as lease:
        held = server.state.named_leases.by_name["n"].held
        assert connect(server).lease_calls.end("n", held.holder).result(HANG)
        assert lease.lost.wait(HANG)
        assert repr(lease) == "<LeaseHandle 'n', lost>"
    lost = lease.lost
    with lease:
        assert not lease.lost.is_set()
    assert lost.is_set()


def test_a_client_that_is_closed(server, connect):
    """Its leases are lost."""
    client = connect(server)
    with client.lease("n") as lease:
        client.close()
        assert lease.lost.is_set()


def test_the_server_refuses(server, connect, monkeypatch):
    """The error is raised, and nothing waits."""
    monkeypatch.setattr(named_leases, "MAX_LEASES", 0)
    with pytest.raises(TooManyLeases):
        connect(server).lease("n").__enter__()


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("", {}, ValueError),
        (7, {}, TypeError),
        ("n", {"keep": 0}, ValueError),
        ("n", {"keep": "soon"}, ValueError),
        ("n", {"keep": None}, TypeError),
        ("n", {"timeout": -1}, ValueError),
    ],
)
def test_bad_arguments(server, connect, name, options, error):
    """Raise in the caller, before anything is sent."""
    with pytest.raises(error):
        connect(server).lease(name, **options)


def test_one_coroutine_has_it(server):
    """Others wait in turn; one that times out or is cancelled leaves the queue."""
    leases = server.state.named_leases

    async def main():
        async with AsyncClient(server.address) as client:
            async with client.lease("n", keep=HANG) as lease:
                assert repr(lease) == "<AsyncLeaseHandle 'n', held>"
                with pytest.raises(LeaseTimeout):
                    await client.lease("n", timeout=0.01).__aenter__()
                with pytest.raises(RuntimeError, match="already"):
                    await lease.__aenter__()
                waiters = [asyncio.ensure_future(wait(client)) for _ in range(2)]
                while len(leases.by_name["n"].waiters) < 2:
                    await asyncio.sleep(0.001)
                waiters[0].cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiters[0]
            assert await waiters[1] > lease.token
        assert leases.by_name == {}

    async def wait(client):
        async with client.lease("n", keep=HANG, timeout=HANG) as lease:
            return lease.token

    asyncio.run(main())


def test_a_lease_that_is_lost_in_a_coroutine(server):
    """Its event tells the loop; the handle's next lease has another event."""

    async def main():
        async with AsyncClient(server.address) as client:
            async with client.lease("n", keep=0.3) as lease:
                assert not lease.lost.is_set()
                holder = server.state.named_leases.by_name["n"].held.holder
                await client.result_of(client.calls.lease_calls.end("n", holder))
                await asyncio.wait_for(lease.lost.wait(), HANG)
                assert repr(lease) == "<AsyncLeaseHandle 'n', lost>"
            async with lease:
                assert not lease.lost.is_set()

    asyncio.run(main())


class ScriptedCalls:
    """A server's answers to one that asks for a lease, each after so many seconds."""

    def __init__(self, answers):
        self.answers, self.asked, self.ended, self.kept = answers, [], [], []
        self.seconds = 100.0
        self.keeper = SimpleNamespace(add=self.kept.append)

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


def test_the_shortest_lease():
    """Shorter ones are refused."""
    least_s = lease_handle._MIN_KEEP_MS / 1000
    assert LeaseTerms("n", least_s, None).keep_ms == lease_handle._MIN_KEEP_MS
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
