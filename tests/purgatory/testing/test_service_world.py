"""ServiceWorld: a server and its clients in a test, with faults at will."""

import math
import threading
from datetime import timedelta

import pytest

from purgatory import OperationExpired
from purgatory.service import (
    LeaseTimeout,
    OperationFailed,
    RequestTimeout,
    StoreFailed,
    Unavailable,
)
from purgatory.testing import ServiceWorld


@pytest.fixture
def world():
    """A world with a server."""
    with ServiceWorld() as made:
        yield made


def test_calls_let_time_pass(world):
    """As much as an answer takes; futures wait for their ends."""
    client = world.client("shop")
    future = client.defer("paid:1", timeout=30)
    assert client.complete("paid:1", "thanks") == 1
    assert future.result() == "thanks"
    assert 0 < world.now < 2
    expired = client.defer("paid:2", timeout=3600)
    with pytest.raises(OperationExpired):
        expired.result()
    assert world.now == pytest.approx(3601, abs=2)
    assert client.defer("paid:3", timeout=10).exception(20) is not None


def test_named_leases(world):
    """They are kept, waited for and lost by the world's clock, without a thread."""
    one, two = world.client("one"), world.client("two")
    with one.lease("printer", keep=5) as first:
        world.advance(3600)
        assert not first.lost.is_set()
        with pytest.raises(LeaseTimeout), two.lease("printer", timeout=60):
            raise AssertionError
        with one.lease("scanner", keep=0.5) as other:  # due earlier than the first
            world.advance(60)
            assert not other.lost.is_set()
        world.partition("one")
        with two.lease("printer", timeout=60) as later:
            assert first.lost.is_set()
            assert later.token > first.token
        world.heal("one")
    with one.lease("printer", keep=5) as again:  # by another thread
        world.advance(60)
        assert not again.lost.is_set()
    assert [thread.name for thread in threading.enumerate() if "leases" in thread.name] == []


def test_a_handle_of_a_repeat_asks_again(world):
    """A tenth of a second of the world is over."""
    repeat = world.client("shop").repeat("r", every=60, kind="k")
    assert repeat.last is None
    world.advance(600)
    assert repeat.last is not None
    assert (repeat.next - repeat.last).total_seconds() >= 60


def test_a_wait_that_is_too_short(world):
    """It ends by the world's clock."""
    client = world.client("shop")
    with pytest.raises(TimeoutError):
        client.defer("k", timeout=1000).result(5)
    assert world.now == pytest.approx(5, abs=1)


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, timedelta(seconds=-1)])
def test_a_bad_duration_is_named(world, seconds):
    """As by ManualPurgatory, before anything happens."""
    client = world.client("shop")
    future = client.defer("k", timeout=5)
    for call in (world.advance, world.crash, world.lose_power):
        with pytest.raises(ValueError, match="seconds is "):
            call(seconds)
    assert client.complete("k") == 1
    world.advance(timedelta(seconds=1))
    assert future.done()


def test_a_crash_loses_nothing(world):
    """Nor a loss of power: what waited goes on, and so does the client."""
    for fault in (world.crash, world.lose_power):
        client = world.client("shop")
        future = client.defer("k", timeout=600)
        client.flush()
        fault(seconds=20)
        world.advance(10)
        assert client.complete("k", 1) == 1
        assert world.run_until(future.done)
        assert future.result() == 1


def test_a_partition(world):
    """Calls time out; after it they arrive."""
    shop, bank = world.client("shop", timeout=5), world.client("bank", timeout=5)
    future = shop.defer("k", timeout=600)
    shop.flush()
    world.partition("bank")
    with pytest.raises(RequestTimeout):
        bank.complete("k", 1)
    assert not future.done()
    world.heal("bank")
    assert future.result(30) == 1
    world.partition()
    with pytest.raises(RequestTimeout):
        shop.stats()
    world.heal()
    assert shop.stats()["pending"] == 0
    with pytest.raises(ValueError, match="'nowhere'; expected one of 'server', 'shop', 'bank'"):
        world.partition("nowhere")


def test_a_full_disk(world):
    """Requests are refused, until there is room again."""
    client = world.client("shop")
    client.stats()
    world.fill_disk()
    with pytest.raises(StoreFailed):
        client.submit("k")
    world.free_disk()
    assert client.submit("k").state == "pending"


def test_a_client_that_is_killed(world):
    """Its outcomes come to the next one of its name."""
    first = world.client("shop")
    first.submit("k", timeout=600, op_id="order 1")
    world.kill(first)
    outcomes = []
    second = world.client("shop", on_outcome=outcomes.append)
    second.fail("k", ValueError("no"))
    assert world.run_until(lambda: outcomes)
    assert outcomes[0].op_id == "order 1"
    future = second.defer("k2")
    second.fail("k2", ValueError("no"))
    with pytest.raises(OperationFailed):
        future.result()


def test_the_name_of_the_server(world):
    """It is no client's."""
    with pytest.raises(ValueError, match="'server'"):
        world.client("server")


def test_one_seed_one_world():
    """What happens is a function of the seed."""

    def moments(seed):
        with ServiceWorld(seed) as world:
            client = world.client("shop")
            for n in range(5):
                client.submit(f"k{n}")
            return world.now

    assert moments(1) == moments(1) != moments(2)


def test_a_cancelled_operation(world):
    """Cancelling waits for the answer."""
    client = world.client("shop")
    future = client.defer("k", timeout=60)
    assert future.extend(100)
    assert future.cancel()
    client.close()
    with pytest.raises(Unavailable):
        client.defer("k")
