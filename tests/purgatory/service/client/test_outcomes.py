"""`on_outcome`: what handles the outcomes for which a client has no future."""

import asyncio
import concurrent.futures
import contextlib
import math
import queue
import threading

import pytest

from purgatory.service import AsyncClient, Client, OutcomeMessage
from purgatory.service.client import outcomes as module
from purgatory.service.client.futures import ServiceFuture
from purgatory.service.client.outcomes import OutcomeHandled, OutcomeHandler, ReceivedOutcomes
from purgatory.service.client.trace_context import wrap
from purgatory.service.encoding import pack, unpack_values
from purgatory.service.platform import Platform
from purgatory.service.protocol import Raw
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def quick(monkeypatch):
    """Retry almost at once."""
    monkeypatch.setattr(module, "FIRST_DELAY_S", 0.001)
    monkeypatch.setattr(module, "MAX_DELAY_S", 0.01)


def submit(server, *op_ids, name="jobs"):
    """Have operations end for which no client has a future."""
    with Client(server.address, name=name, timeout=HANG) as client:
        for op_id in op_ids:
            client.defer(f"key of {op_id}", op_id=op_id, payload={"job": op_id})
        client.flush()
    with Client(server.address, timeout=HANG) as other:
        for op_id in op_ids:
            assert other.complete(f"key of {op_id}", [1, "ä"]) == 1


def unread(server, name="jobs"):
    """Return the ids of outcomes that are not acknowledged."""
    with Client(server.address, name=name, timeout=HANG) as client:
        return [outcome.op_id for outcome in client.unread()]


def wait_until_read(server):
    """Wait until all outcomes are acknowledged."""
    while unread(server):
        pass


class TestValues:
    def test_they_are_decoded(self, server, connect):
        """A program gets values, not their bytes: in `on_outcome`, `unread` and `query`."""
        submit(server, "a")
        found = queue.SimpleQueue()
        client = connect(server, name="jobs")
        [outcome] = client.unread()
        assert (outcome.payload, outcome.result) == ({"job": "a"}, [1, "ä"])
        status = client.query("a")
        assert (status.payload, status.result) == ({"job": "a"}, [1, "ä"])
        connect(server, name="jobs", on_outcome=found.put)
        outcome = found.get(timeout=HANG)
        assert (outcome.payload, outcome.result) == ({"job": "a"}, [1, "ä"])

    def test_a_value_that_python_cannot_hold(self):
        """It stays as it came, and the others are decoded."""
        bad = Raw(b"\xa1\xff")
        outcome = OutcomeMessage(1, "a", "completed", 5, "k", bad, payload=Raw(b"\x07"))
        unpack_values(outcome)
        assert (bytes(outcome.result), outcome.payload) == (bytes(bad), 7)


class TestCoroutineFunctions:
    def test_it_is_awaited(self, server):
        """The outcome is acknowledged when it has returned, not before; others go on meanwhile."""
        submit(server, "slow", "quick")

        async def scenario():
            seen, go_on = asyncio.Queue(), asyncio.Event()
            loop = asyncio.get_running_loop()

            async def handle(outcome):
                assert asyncio.get_running_loop() is loop
                await seen.put(outcome.op_id)
                if outcome.op_id == "slow":
                    await go_on.wait()

            async with AsyncClient(
                server.address, name="jobs", timeout=HANG, on_outcome=handle
            ) as client:
                assert {await seen.get(), await seen.get()} == {"slow", "quick"}
                while len(found := await client.unread()) > 1:
                    pass
                assert [outcome.op_id for outcome in found] == ["slow"]
                go_on.set()

        asyncio.run(asyncio.wait_for(scenario(), HANG))
        assert unread(server) == []

    def test_one_that_raises(self, server, quick):
        """It is called again, until it returns; so is a plain function, in the loop, too."""
        submit(server, "a", "b")

        async def scenario():
            calls, done = [], asyncio.Event()

            async def fail_twice(outcome):
                calls.append(outcome.op_id)
                if calls.count(outcome.op_id) < 3:
                    raise ValueError("not yet")
                if len(calls) == 6:
                    done.set()

            async with AsyncClient(server.address, name="jobs", on_outcome=fail_twice):
                await done.wait()
            return sorted(calls)

        assert asyncio.run(asyncio.wait_for(scenario(), HANG)) == ["a"] * 3 + ["b"] * 3
        assert unread(server) == []

    def test_one_that_is_cancelled_at_the_end(self, server):
        """Its outcome stays at the server."""
        submit(server, "a")

        async def scenario():
            began = asyncio.Event()

            async def handle(_):
                began.set()
                await asyncio.Event().wait()

            client = AsyncClient(server.address, name="jobs", on_outcome=handle)
            await began.wait()
            await client.close(0.01)

        asyncio.run(asyncio.wait_for(scenario(), HANG))
        assert unread(server) == ["a"]

    def test_where_no_loop_would_await_it(self, server, connect, caplog, monkeypatch):
        """It is refused; and what turns out to be one only when it is called is no success."""

        async def handle(_):
            """Do nothing."""

        with pytest.raises(TypeError, match=r"on_outcome is <function .*; use AsyncClient"):
            Client(server.address, on_outcome=handle)
        with pytest.raises(RuntimeError, match="no running event loop"):
            AsyncClient(server.address, on_outcome=handle)
        monkeypatch.setattr(module, "ATTEMPTS", 1)
        submit(server, "a")
        called = threading.Event()

        def hidden(outcome):
            called.set()
            return handle(outcome)

        connect(server, name="jobs", on_outcome=hidden)
        assert called.wait(HANG)
        eventually(lambda: "has not run to its end" in caplog.text)
        assert unread(server) == ["a"]


async def await_nothing():
    """Do nothing."""


def generate():
    yield


async def generate_async():
    yield


def failed():
    future = concurrent.futures.Future()
    future.set_result(generate())
    return future


class TestNotRunToTheEnd:
    """`on_outcome` that returns what has done nothing yet has not handled the outcome."""

    @pytest.mark.parametrize("returned", [await_nothing, generate, generate_async, failed])
    def test_it_is_no_success(self, server, connect, monkeypatch, caplog, returned):
        """The outcome stays at the server."""
        monkeypatch.setattr(module, "ATTEMPTS", 1)
        submit(server, "a")
        client = connect(server, name="jobs", on_outcome=lambda _: returned())
        eventually(lambda: "has not run to its end" in caplog.text)
        assert [outcome.op_id for outcome in client.unread()] == ["a"]

    @pytest.mark.parametrize("returned", [generate, generate_async, failed])
    def test_in_an_event_loop(self, server, monkeypatch, caplog, returned):
        """So it is for an AsyncClient, which awaits coroutines and futures."""
        monkeypatch.setattr(module, "ATTEMPTS", 1)
        submit(server, "a")

        async def scenario():
            async with AsyncClient(
                server.address, name="jobs", on_outcome=lambda _: returned()
            ) as client:
                while "has not run to its end" not in caplog.text:
                    await asyncio.sleep(0)
                return await client.unread()

        assert len(asyncio.run(asyncio.wait_for(scenario(), HANG))) == 1

    def test_a_future_is_awaited(self, server):
        """An outcome is acknowledged when the future of another thread is done, not before."""
        submit(server, "a")

        async def scenario():
            future = concurrent.futures.Future()
            called = asyncio.Event()

            def handle(_):
                called.set()
                return future

            async with AsyncClient(server.address, name="jobs", on_outcome=handle) as client:
                await called.wait()
                assert len(await client.unread()) == 1
                future.set_result(None)
                while await client.unread():
                    pass

        asyncio.run(asyncio.wait_for(scenario(), HANG))


class TestRaising:
    @pytest.mark.parametrize(
        "error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]
    )
    @pytest.mark.parametrize("by_future", [False, True])
    def test_whatever_it_raises(self, server, connect, quick, error, by_future):
        """The client's thread goes on, and calls it again."""
        submit(server, "a")
        calls, done = [], threading.Event()

        def handle(_):
            calls.append(1)
            if len(calls) == 3:
                done.set()
                return None
            if not by_future:
                raise error
            future = concurrent.futures.Future()
            future.set_exception(error())
            return future

        client = connect(server, name="jobs", on_outcome=handle)
        assert done.wait(HANG)
        assert client.complete("k") == 0
        eventually(lambda: not client.unread())

    def test_it_is_called_again(self, server, connect, quick, caplog):
        """And the others are handled meanwhile; the log says which call it was."""
        submit(server, "bad", "good")
        calls, done = [], threading.Event()

        def handle(outcome):
            calls.append(outcome.op_id)
            if outcome.op_id == "bad" and calls.count("bad") < 4:
                raise ValueError("not yet")
            if calls.count("bad") == 4:
                done.set()

        connect(server, name="jobs", on_outcome=handle)
        assert done.wait(HANG)
        wait_until_read(server)
        assert sorted(calls) == ["bad"] * 4 + ["good"]
        assert calls[:2] == ["bad", "good"]
        assert "on_outcome of client 'jobs' raised for 'bad', call 3 of 10; the next" in caplog.text

    def test_it_is_called_a_bounded_number_of_times(self, server, connect, quick, caplog):
        """Then the outcome stays at the server, for the next connection."""
        submit(server, "a")
        calls, again = [], threading.Event()

        def fail(outcome):
            calls.append(outcome.op_id)
            raise ValueError("never")

        client = connect(server, name="jobs", on_outcome=fail)
        while "left at the server" not in caplog.text:
            client.stats()
        assert len(calls) == module.ATTEMPTS
        assert unread(server) == ["a"]
        connect(server, name="jobs", on_outcome=lambda _: again.set())
        assert again.wait(HANG)

    def test_a_future_that_it_returns(self, server, connect):
        """The outcome is acknowledged when that is resolved: a pool may do the work."""
        submit(server, "a")
        done = concurrent.futures.Future()
        called = threading.Event()

        def handle(_):
            called.set()
            return done

        connect(server, name="jobs", on_outcome=handle)
        assert called.wait(HANG)
        assert unread(server) == ["a"]
        done.set_result(None)
        wait_until_read(server)

    def test_delays(self):
        """They double, up to a bound; and what waits is not handed over twice."""
        now = [0.0]

        class Longest(Platform):
            monotonic = staticmethod(lambda: now[0])
            uniform = staticmethod(lambda _, most: most)

        calls = []

        def fail(outcome):
            calls.append(outcome.number)
            raise ValueError

        handler = OutcomeHandler(fail, "me", Longest())
        outcome = OutcomeMessage(7, "a", "expired", 5)
        delays = []
        assert not handler.handle(outcome)
        while handler.next_retry_at is not None:
            assert not handler.handle(outcome)
            delays.append(handler.next_retry_at - now[0])
            assert handler.retry(now[0]) == []
            now[0] = handler.next_retry_at
            assert handler.retry(now[0]) == []
        assert len(calls) == module.ATTEMPTS
        assert delays == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30])

    def test_only_so_many_wait(self, monkeypatch):
        """A program whose database is down does not gather all outcomes in memory."""
        monkeypatch.setattr(module, "MAX_WAITING", 2)
        futures = [concurrent.futures.Future() for _ in range(4)]
        handler = OutcomeHandler(lambda outcome: futures[outcome.number], "me")
        outcomes = [OutcomeMessage(number, "a", "expired", 5) for number in range(4)]
        for outcome in outcomes:
            assert not handler.handle(outcome)
        for outcome in outcomes[:3]:
            assert not handler.finish(OutcomeHandled(outcome, ValueError()))
        assert handler.finish(OutcomeHandled(outcomes[3], None))
        assert len(handler._deliveries) == 2


def test_a_log_handler_that_raises(monkeypatch):
    """The due calls after the one that it reports are made with the next look."""
    calls = []

    def fail(outcome):
        calls.append(outcome.op_id)
        raise ValueError

    def raise_once(*_, **__):
        monkeypatch.undo()
        raise OSError("the disk of the log is full")

    handler = OutcomeHandler(fail, "me")
    for number, op_id in enumerate("abc"):
        handler.handle(OutcomeMessage(number, op_id, "expired", 5))
    monkeypatch.setattr(module.log, "warning", raise_once)
    with pytest.raises(OSError, match="log is full"):
        handler.retry(math.inf)
    for _ in range(2):
        handler.retry(handler.next_retry_at)
    assert sorted(calls) == sorted("abc" * 2)


def test_a_number_that_comes_again():
    """A server that lost its last changes numbers others so: neither outcome is lost."""
    calls, future = [], concurrent.futures.Future()

    def handle(outcome):
        calls.append(outcome.op_id)
        return future if outcome.op_id == "slow" else None

    received = ReceivedOutcomes({}, OutcomeHandler(handle, "me"), None)
    for op_id in ("quick", "quick", "slow", "slow", "other", "other"):
        received.resolve([OutcomeMessage(7, op_id, "completed", 5)], True)
    assert calls == ["quick", "slow", "other"]
    assert received.take_handled() == [7, 7, 7, 7]
    received.resolve([OutcomeMessage(7, "other", "expired", 6)], True)
    assert calls[3:] == ["other"]


class Tracer:
    """A tracer that raises `error`, at the begin of a block or at its end."""

    def __init__(self, error):
        self.error, self.ended_ids = error, []

    @contextlib.contextmanager
    def ended(self, outcome, traceparent):
        assert traceparent == TRACEPARENT
        self.ended_ids.append(outcome.op_id)
        if self.error == "begin":
            raise SystemExit
        yield
        if self.error == "end":
            raise ValueError


@pytest.mark.parametrize("traceparent", ["", TRACEPARENT])
@pytest.mark.parametrize("error", [None, "begin", "end", "no tracer"])
@pytest.mark.parametrize(("take", "handles"), [(True, True), (True, False), (False, True)])
def test_an_outcome_is_traced_by_the_client_that_handles_it(traceparent, error, take, handles):
    """Once, and whatever the tracer raises. What is left is told, until it comes again."""
    called, left = [], []
    tracer = None if error == "no tracer" else Tracer(error)
    handler = OutcomeHandler(called.append, "me") if handles else None
    future = ServiceFuture(None, "a")
    received = ReceivedOutcomes({"a": future}, handler, tracer)
    received.on_left = lambda: left.append(1)

    def outcomes():
        payload = wrap(traceparent, Raw(pack("p")))
        return [
            OutcomeMessage(number, op_id, "completed", 5, result=Raw(pack(3)), payload=payload)
            for number, op_id in enumerate("ab")
        ]

    received.resolve(outcomes(), take)
    assert future.result(0) == 3
    ids = ["a", "b"] if take and handles else ["a"]
    assert [(outcome.op_id, outcome.payload) for outcome in called] == [("b", "p")] * (len(ids) - 1)
    assert len(left) == 2 - len(ids)
    if tracer is not None:
        assert tracer.ended_ids == (ids if traceparent else [])
    received.resolve(outcomes(), take)
    assert received.take_handled() == [*range(len(ids))] * 2
    assert len(called) == len(ids) - 1


def test_handled_outcomes_are_forgotten_in_their_order():
    """The first one, once there are too many."""
    called, most = [], module.REMEMBERED_ACKNOWLEDGEMENTS
    received = ReceivedOutcomes({}, OutcomeHandler(called.append, "me"), None)
    for numbers in (range(1, most + 1), [1, most + 1], [2, 1]):
        received.resolve([OutcomeMessage(number, "a", "expired", 5) for number in numbers], True)
    assert [outcome.number for outcome in called[most:]] == [most + 1, 1]


class TestClientsOfOneName:
    def test_each_outcome_is_handled_once(self, server, connect):
        """By the client that connected last; when that has gone, by the one before."""
        old, new = queue.SimpleQueue(), queue.SimpleQueue()
        first = connect(server, name="jobs", on_outcome=lambda outcome: old.put(outcome.op_id))
        first.stats()
        second = connect(server, name="jobs", on_outcome=lambda outcome: new.put(outcome.op_id))
        second.stats()
        ids = [f"o{n}" for n in range(20)]
        submit(server, *ids)
        assert sorted(new.get(timeout=HANG) for _ in ids) == sorted(ids)
        wait_until_read(server)
        second.close()
        submit(server, "later")
        assert old.get(timeout=HANG) == "later"
        assert old.empty()
        assert new.empty()

    def test_what_the_newest_did_not_handle(self, server, connect):
        """It comes to the one before, though that one was sent it already."""
        old, new = queue.SimpleQueue(), queue.SimpleQueue()

        def fail(outcome):
            new.put(outcome.op_id)
            raise ValueError

        connect(server, name="jobs", on_outcome=lambda outcome: old.put(outcome.op_id)).stats()
        second = connect(server, name="jobs", on_outcome=fail)
        second.stats()
        submit(server, "a")
        assert new.get(timeout=HANG) == "a"
        assert old.empty()
        second.close()
        assert old.get(timeout=HANG) == "a"

    def test_a_future_of_what_was_handled(self, server, connect):
        """It resolves, too, though the outcome was acknowledged and comes once more for it."""
        submit(server, "a")
        handled = queue.SimpleQueue()
        client = connect(server, name="jobs", on_outcome=lambda outcome: handled.put(outcome.op_id))
        assert handled.get(timeout=HANG) == "a"
        assert client.defer("key of a", op_id="a").result(HANG) == [1, "ä"]
        wait_until_read(server)
        assert handled.empty()

    def test_futures_of_each(self, server, connect):
        """Each client's futures resolve; one without `on_outcome` keeps nothing from the other."""
        handled = queue.SimpleQueue()
        first = connect(server, name="jobs", on_outcome=lambda outcome: handled.put(outcome.op_id))
        future = first.defer("first")
        first.stats()
        second = connect(server, name="jobs")
        other = second.defer("second")
        second.stats()
        submit(server, "a")
        assert handled.get(timeout=HANG) == "a"
        assert second.complete("first", 1) == second.complete("second", 2) == 1
        assert (future.result(HANG), other.result(HANG)) == (1, 2)
