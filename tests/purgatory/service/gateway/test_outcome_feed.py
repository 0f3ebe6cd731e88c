"""Streams of outcomes: who takes them meanwhile, what a quiet one says, how it ends."""

import asyncio
import contextlib
import itertools
import queue
import tracemalloc
from types import SimpleNamespace

import pytest

from purgatory.service.errors import BadAddress, Refused, RequestTimeout
from purgatory.service.gateway import outcomes as module
from purgatory.service.gateway.outcome_feed import OutcomeFeed
from tests.testing.eventually import eventually
from tests.testing.gateway_outcomes import end, events
from tests.testing.purgatory_harness import HANG


def test_another_program_of_the_name(shop, server, connect):
    """It takes the outcomes, but while a stream is open; then what the stream left."""
    found = queue.SimpleQueue()
    end(shop, "before")
    other = connect(server, name="shop", on_outcome=lambda outcome: found.put(outcome.op_id))
    end(shop, "a")
    assert [found.get(timeout=HANG) for _ in range(2)] == ["before", "a"]
    connections = other.stats()["connections"]
    with shop.stream("GET", "/v1/outcomes/stream") as stream:
        outcomes = events(stream.iter_lines())
        # Until the gateway is connected, the other program takes them, and acknowledges them.
        eventually(lambda: other.stats()["connections"] > connections)
        end(shop, "b", "c")
        assert [next(outcomes)["op_id"] for _ in range(2)] == ["b", "c"]
        other.stats()  # what the server had sent before has come
        assert found.empty()
    assert [found.get(timeout=HANG) for _ in range(2)] == ["b", "c"]


def test_a_quiet_stream(shop, monkeypatch):
    """It says that it is there by comments, which are no events."""
    monkeypatch.setattr(module, "_QUIET_S", 0.01)
    with shop.stream("GET", "/v1/outcomes/stream") as stream:
        lines = stream.iter_lines()
        assert next(lines) == ":"
        end(shop, "a")
        said = list(itertools.takewhile(lambda line: not line.startswith("event"), lines))
    assert {line.partition(":")[0] for line in said if line} <= {"", "id"}


class _Unanswered:
    """A client without a server."""

    def __init__(self, timeout):
        self.timeout = timeout
        self.calls = SimpleNamespace(received=SimpleNamespace())

    async def unread(self, after):
        """Wait in vain."""
        await asyncio.sleep(self.timeout)
        raise RequestTimeout("no answer")


async def _first_comment_after(quiet_s, timeout):
    loop = asyncio.get_running_loop()
    began = loop.time()
    feed = OutcomeFeed(_Unanswered(timeout), connect=None)
    async with contextlib.aclosing(feed.read(0, quiet_s, takes=False)) as outcomes:
        assert await anext(outcomes) is None
    return loop.time() - began


def test_a_quiet_stream_without_a_server():
    """A call waits first, so a revoked token's stream ends later by that call's patience."""
    assert asyncio.run(_first_comment_after(0.02, 0.03)) >= 0.05


class _Left:
    """A client with three unacknowledged outcomes."""

    def __init__(self):
        self.calls = SimpleNamespace(received=SimpleNamespace())

    async def unread(self, after):
        """Return those beyond a number."""
        return [SimpleNamespace(number=number) for number in range(after + 1, 4)]


async def _turns_of_the_loop():
    feed = OutcomeFeed(_Left(), connect=None)
    turns = []
    async with contextlib.aclosing(feed.read(0, 0.0, takes=False)) as outcomes:
        async for outcome in outcomes:
            if outcome is None:
                break
            asyncio.get_running_loop().call_soon(turns.append, outcome.number)
            turns.append("sent")
    return turns


def test_a_page_lets_the_loop_go_on():
    """Between two outcomes the loop can see that the program has hung up."""
    assert asyncio.run(_turns_of_the_loop()) == ["sent", 1, "sent", 2, "sent", 3]


async def _read_once(feed):
    async with contextlib.aclosing(feed.read(0, 0.0, takes=True)) as outcomes:
        await anext(outcomes)


def test_a_connection_that_cannot_be_made():
    """The stream does not count: after the next one its connection is closed."""
    closed = []
    answers = [SimpleNamespace(close=closed.append), BadAddress("too many open files")]

    def connect(on_outcome):
        answer = answers.pop()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def main():
        feed = OutcomeFeed(_Left(), connect)
        with pytest.raises(BadAddress):
            await _read_once(feed)
        await _read_once(feed)

    asyncio.run(main())
    assert closed == [0]


def test_a_connection_that_the_server_has_refused():
    """The next stream makes another, though the first goes on; each is closed."""
    closed, made = [], []

    def connect(on_outcome):
        number = len(made)
        failure = None if number else Refused("not allowed")
        made.append(SimpleNamespace(close=lambda _: closed.append(number)))
        made[-1].job_calls = SimpleNamespace(failure=failure)
        return made[-1]

    async def main():
        feed = OutcomeFeed(_Left(), connect)
        async with (
            contextlib.aclosing(feed.read(0, 0.0, takes=True)) as first,
            contextlib.aclosing(feed.read(0, 0.0, takes=True)) as second,
            contextlib.aclosing(feed.read(0, 0.0, takes=True)) as third,
        ):
            for stream in (first, second, third):
                await anext(stream)
            assert closed == [0]

    asyncio.run(main())
    assert (closed, len(made)) == ([0, 1], 2)


def test_a_gateway_that_ends(gateway, shop):
    """Open streams end, and the outcomes are told by the next gateway."""
    end(shop, "a")
    with shop.stream("GET", "/v1/outcomes/stream") as stream:
        lines = stream.iter_lines()
        assert next(events(lines))["op_id"] == "a"
        gateway.gateway.stop()
        assert list(events(lines)) == []


def test_a_token_that_may_only_read(gateway, shop, server, connect):
    """Its stream tells the outcomes, and takes none from the program whose they are."""
    found = queue.SimpleQueue()
    connect(server, name="shop", on_outcome=lambda outcome: found.put(outcome.op_id))
    with (
        gateway.program("shop", ["read"]) as reader,
        reader.stream("GET", "/v1/outcomes/stream") as stream,
    ):
        assert stream.status_code == 200
        for op_id in ("a", "b", "c"):
            end(shop, op_id)
            assert found.get(timeout=HANG) == op_id


@pytest.mark.parametrize("rights", [["read"], ["read", "submit"], ["administer"]])
def test_a_revoked_token(gateway, shop, rights):
    """An open stream ends before the next outcome."""
    end(shop, "a")
    with (
        gateway.program("shop", rights) as reader,
        reader.stream("GET", "/v1/outcomes/stream") as stream,
    ):
        outcomes = events(stream.iter_lines())
        assert next(outcomes)["op_id"] == "a"
        assert gateway.tokens.revoke(gateway.tokens.all()[-1].id) == 1
        end(shop, "b")
        assert list(outcomes) == []
    numbers = [each["op_id"] for each in shop.get("/v1/outcomes").json()["outcomes"]]
    assert numbers == ["a", "b"]


def test_a_slow_reader(shop, server, connect):
    """The gateway reads a page, not all that there is: 40 MB are not in its memory."""
    client = connect(server, name="shop")
    for n in range(40):
        for m in range(40):
            client.submit_later(f"k{n}", op_id=f"{n}-{m}", payload="x" * 25_000)
        client.flush()
        client.complete(f"k{n}")
    client.close()
    tracemalloc.start()
    try:
        with shop.stream("GET", "/v1/outcomes/stream") as stream:
            lines = stream.iter_lines()
            assert next(events(lines))["op_id"] == "0-0"
            shop.get("/v1/outcomes")  # the gateway has had time to read more
            assert tracemalloc.get_traced_memory()[1] < 15 << 20
            found = sum(1 for _ in itertools.islice(events(lines), 1599))
    finally:
        tracemalloc.stop()
    assert found == 1599
