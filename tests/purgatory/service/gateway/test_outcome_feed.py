"""Streams of outcomes: who takes them meanwhile, what a quiet one says, how it ends."""

import itertools
import queue

from purgatory.service.gateway import outcomes as module
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
        assert next(lines) == ": "
        end(shop, "a")
        said = list(itertools.takewhile(lambda line: not line.startswith("event"), lines))
    assert {line.partition(":")[0] for line in said if line} <= {"", "id"}


def test_a_gateway_that_ends(gateway, shop):
    """Open streams end, and the outcomes are told by the next gateway."""
    end(shop, "a")
    with shop.stream("GET", "/v1/outcomes/stream") as stream:
        lines = stream.iter_lines()
        assert next(events(lines))["op_id"] == "a"
        gateway.gateway.stop()
        assert list(events(lines)) == []
