"""`/v1/counts`: how many jobs there are, and the stream of it."""

import json

import pytest

from purgatory.service import Client
from tests.testing.purgatory_harness import HANG


@pytest.fixture
def client(server):
    """A client of the token's name."""
    with Client(server.address, name="shop", timeout=HANG) as made:
        yield made


def test_counts(shop, client):
    """By state and kind; a filter selects."""
    for n in range(3):
        client.schedule(3600, kind="mail", tags=[f"t-{n}"], job_id=f"a-{n}")
    client.schedule(3600, kind="print")
    client.cancel_job("a-0")
    assert shop.get("/v1/counts").json() == {
        "states": {"scheduled": 3, "cancelled": 1},
        "kinds": [
            {"kind": "mail", "states": {"scheduled": 2, "cancelled": 1}, "is_stuck": False},
            {"kind": "print", "states": {"scheduled": 1}, "is_stuck": False},
        ],
        "others": {},
        "operations": {},
        "troubles": [],
    }
    assert shop.get("/v1/counts?tag=t-1").json()["states"] == {"scheduled": 1}
    assert shop.get("/v1/counts?kind=mail&state=cancelled").json()["states"] == {"cancelled": 1}
    for none in ("kind=none", "kind=", "tag="):
        assert shop.get(f"/v1/counts?{none}").json()["states"] == {}
    assert shop.get("/v1/counts?state=late").status_code == 400


def test_operations_and_troubles(gateway, shop, client, server):
    """Operations are counted by state; what is wrong is said. With a filter, neither."""
    client.submit("k", timeout=3600, op_id="a")
    client.submit("l", timeout=3600, op_id="b")
    client.complete("k")
    client.schedule(0, kind="mial")
    client.schedule(3600, kind="mail")
    client.schedule(3600, kind="mail")
    found = shop.get("/v1/counts").json()
    assert [(each["kind"], each["is_stuck"]) for each in found["kinds"]] == [
        ("mial", True),
        ("mail", False),
    ]
    assert found["operations"] == {"pending": 1, "completed": 1}
    assert found["troubles"] == ["1 job of kind “mial” waits, and no worker takes this kind"]
    filtered = shop.get("/v1/counts?kind=mial").json()
    assert (filtered["operations"], filtered["troubles"]) == ({}, [])
    client.schedule(3600, kind="mail", tags=["t"])
    client.schedule(0, kind="mial", tags=["t"])
    kinds = {query: shop.get(f"/v1/counts?{query}").json()["kinds"] for query in ("tag=t", "")}
    assert kinds["tag=t"][0]["kind"] == "mail"  # the busiest, here by name
    assert kinds[""][0]["kind"] == "mial"  # in trouble
    client.cancel_jobs(tag="t")
    found = shop.get("/v1/counts").json()
    with gateway.program("boss", ["administer"]) as boss:
        assert boss.get("/v1/counts").json() == found
        assert boss.get("/v1/counts?client=other").json()["operations"] == {}


def test_own_jobs_only(gateway, shop, server):
    """A token without `administer` counts the jobs of its client alone."""
    with Client(server.address, name="other", timeout=HANG) as other:
        other.schedule(3600, kind="secret")
    assert shop.get("/v1/counts").json()["states"] == {}
    assert shop.get("/v1/counts?client=other").status_code == 403
    with gateway.program("boss", ["administer"]) as boss:
        assert boss.get("/v1/counts").json()["states"] == {"scheduled": 1}
        assert boss.get("/v1/counts?client=shop").json()["states"] == {}


NOTHING = {"states": {}, "kinds": [], "others": {}, "operations": {}, "troubles": []}


def events(answer):
    """Yield the names and contents of a stream's events."""
    name = None
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line[7:]
        if line.startswith("data: "):
            yield name, json.loads(line[6:])


def test_stream(shop, client):
    """It tells of changes, of the client's jobs alone."""
    with shop.stream("GET", "/v1/counts/stream") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = events(answer)
        assert next(found) == ("counts", NOTHING)
        client.schedule(3600, kind="mail")
        assert next(found)[1]["states"] == {"scheduled": 1}


def test_a_revoked_token(gateway, shop):
    """The stream ends, and says why."""
    with shop.stream("GET", "/v1/counts/stream") as answer:
        found = events(answer)
        next(found)
        gateway.tokens.revoke("shop")
        name, problem = next(found)
        assert (name, problem["code"]) == ("problem", "token")
        assert list(found) == []


def test_the_end_of_the_gateway(gateway, shop):
    """The stream ends with it."""
    with shop.stream("GET", "/v1/counts/stream") as answer:
        found = events(answer)
        next(found)
        gateway.gateway.stop()
        assert list(found) == []


def test_too_many_streams(shop, monkeypatch):
    """One more than allowed is told so."""
    monkeypatch.setattr("purgatory.service.gateway.count_feed.MOST_STREAMS", 1)
    with shop.stream("GET", "/v1/counts/stream") as first:
        open_events = events(first)  # closed, it would close the stream
        next(open_events)
        with shop.stream("GET", "/v1/counts/stream") as second:
            [(name, problem)] = events(second)
            assert (name, problem["code"]) == ("problem", "too-many-reads")
