"""Outcomes over HTTP: listed, followed as server-sent events, acknowledged."""

import itertools
import json
import queue

from purgatory.service.gateway import outcomes as module
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG


def events(lines):
    """Yield the data of server-sent events."""
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def end(shop, *op_ids):
    """Submit operations and complete them."""
    for op_id in op_ids:
        shop.post("/v1/operations", json={"keys": [op_id], "op_id": op_id, "payload": op_id})
        shop.post(f"/v1/keys/{op_id}", json={"value": 1})


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
        assert next(lines) == ": "
        end(shop, "a")
        said = list(itertools.takewhile(lambda line: not line.startswith("event"), lines))
    assert {line.partition(":")[0] for line in said if line} <= {"", "id"}


def test_go_on_behind_the_last(shop):
    """As browsers ask for it, and by number."""
    end(shop, "a", "b")
    number = shop.get("/v1/outcomes").json()["outcomes"][0]["number"]
    for options in ({"headers": {"Last-Event-ID": str(number)}}, {"params": {"after": number}}):
        with shop.stream("GET", "/v1/outcomes/stream", **options) as stream:
            assert next(events(stream.iter_lines()))["op_id"] == "b"


def test_a_gateway_that_ends(gateway, shop):
    """Open streams end, and the outcomes are told by the next gateway."""
    end(shop, "a")
    with shop.stream("GET", "/v1/outcomes/stream") as stream:
        lines = stream.iter_lines()
        assert next(events(lines))["op_id"] == "a"
        gateway.gateway.stop()
        assert list(events(lines)) == []
