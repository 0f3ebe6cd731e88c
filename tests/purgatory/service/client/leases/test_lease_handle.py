"""Named leases of programs, at a real server."""

import subprocess
import sys
import threading

import pytest

from purgatory.service import LeaseTimeout, TooManyLeases
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
