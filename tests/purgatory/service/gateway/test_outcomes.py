"""Outcomes over HTTP: listed, followed as server-sent events, acknowledged."""

import asyncio
from types import SimpleNamespace

import pytest

from purgatory.service.auth.access import Access
from purgatory.service.errors import StoreFailed
from purgatory.service.gateway import outcomes as module
from tests.testing.gateway_outcomes import end, events


def test_read_and_acknowledge(shop):
    """Reading takes none away; what is acknowledged has gone."""
    end(shop, "a", "b")
    outcomes = shop.get("/v1/outcomes").json()["outcomes"]
    assert [(each["op_id"], each["outcome"], each["payload"]) for each in outcomes] == [
        ("a", "completed", "a"),
        ("b", "completed", "b"),
    ]
    numbers = [each["number"] for each in outcomes]
    later = shop.get("/v1/outcomes", params={"after": numbers[0]}).json()["outcomes"]
    assert [each["op_id"] for each in later] == ["b"]
    answer = shop.post("/v1/outcomes/acknowledge", json={"numbers": [*numbers, 999]})
    assert answer.json() == {"count": 2}
    assert shop.get("/v1/outcomes").json() == {"outcomes": []}


def test_follow(shop):
    """A stream tells what is there and what comes, in order, and again until acknowledged."""
    end(shop, "a")
    with shop.stream("GET", "/v1/outcomes/stream") as stream:
        found = events(stream.iter_lines())
        first = next(found)
        assert (first["op_id"], first["result"]) == ("a", 1)
        end(shop, "b", "c")
        assert [next(found)["op_id"] for _ in range(2)] == ["b", "c"]
    shop.post("/v1/outcomes/acknowledge", json={"numbers": [first["number"]]})
    with shop.stream("GET", "/v1/outcomes/stream") as stream:
        assert next(events(stream.iter_lines()))["op_id"] == "b"


def test_the_lines_of_an_event(shop):
    """Each ends with a line feed alone, as programs that split the text expect."""
    end(shop, "a")
    with shop.stream("GET", "/v1/outcomes/stream") as stream:
        event = next(stream.iter_bytes())
    assert event.startswith(b"id: 1\nevent: outcome\ndata: {")
    assert event.endswith(b"}\n\n")


def test_go_on_behind_the_last(shop):
    """As browsers ask for it, and by number."""
    end(shop, "a", "b")
    number = shop.get("/v1/outcomes").json()["outcomes"][0]["number"]
    for options in ({"headers": {"Last-Event-ID": str(number)}}, {"params": {"after": number}}):
        with shop.stream("GET", "/v1/outcomes/stream", **options) as stream:
            assert next(events(stream.iter_lines()))["op_id"] == "b"


@pytest.mark.parametrize("last", [2**63 - 1, 2**63, 10**20 - 1])
def test_a_last_event_id_beyond_all_numbers(shop, monkeypatch, last):
    """The stream is open, and has no outcome."""
    monkeypatch.setattr(module, "_QUIET_S", 0.01)
    end(shop, "a")
    headers = {"Last-Event-ID": str(last)}
    with shop.stream("GET", "/v1/outcomes/stream", headers=headers) as stream:
        assert next(stream.iter_lines()) == ":"


class _Refused:
    """A feed of a server that refuses to read."""

    async def read(self, after, quiet_s, *, takes):
        """Yield a sign of life first."""
        yield None
        raise StoreFailed("the disk fails")


def test_a_server_that_refuses():
    """The stream, which has begun, ends as for a revoked token; a program asks again."""

    async def main():
        caller = SimpleNamespace(access=Access("shop"), check=list, feed=_Refused())
        return [event async for event in module.follow.handler(caller)]

    assert asyncio.run(main()) == [b":\n\n"]
