"""`/v1/repeats` through a gateway and a server."""

import pytest

from purgatory import next_times

DAILY = {"cron": "30 2 * * *", "tz": "Europe/Berlin", "kind": "report", "payload": {"to": "ada"}}


@pytest.fixture
def operator(gateway):
    """A program that may see and change what all clients have."""
    with gateway.program("operator", ("administer",)) as program:
        yield program


@pytest.fixture
def other(gateway):
    """A program of another client."""
    with gateway.program("other") as program:
        yield program


def test_declare_and_look(shop):
    """It is answered as it is, and the same way again."""
    answer = shop.put("/v1/repeats/nightly%20report", json=DAILY)
    report = answer.json()
    assert answer.status_code == 200
    assert report | DAILY == report
    [following] = next_times("30 2 * * *", "Europe/Berlin", 1)
    assert report["next_ms"] == following.timestamp() * 1000
    assert (report["name"], report["client"]) == ("nightly report", "shop")
    assert (report["paused"], report["last_ms"], report["skipped"]) == (False, None, 0)
    assert shop.get("/v1/repeats/nightly%20report").json() == report
    assert shop.get("/v1/repeats").json() == {"repeats": [report], "cursor": None}


def test_intervals(shop):
    """Seconds, or a text."""
    report = shop.put("/v1/repeats/r", json={"every": "1m30s", "jitter": "500ms"}).json()
    assert (report["every"], report["jitter"], report["cron"]) == (90.0, 0.5, None)


def test_control(shop):
    """Pause, resume, run and delete."""
    shop.put("/v1/repeats/r", json={"every": 60, "kind": "nobody"})
    assert shop.post("/v1/repeats/r/pause").json() == {"done": True}
    report = shop.get("/v1/repeats/r").json()
    assert (report["paused"], report["next_ms"]) == (True, None)
    assert shop.post("/v1/repeats/r/resume").json() == {"done": True}
    assert shop.post("/v1/repeats/r/run").json() == {"done": True}
    assert shop.post("/v1/repeats/r/run").json() == {"done": False}
    assert shop.get("/v1/repeats/r").json()["skipped"] == 1
    assert shop.delete("/v1/repeats/r").json() == {"done": True}
    for answer in (shop.get("/v1/repeats/r"), shop.delete("/v1/repeats/r")):
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown")
    assert shop.post("/v1/repeats/r/run").status_code == 404


def test_pages(shop, other, operator):
    """Of the own client, of another, or of all; page by page."""
    for name in ("a", "b/c", "d"):
        shop.put(f"/v1/repeats/{name.replace('/', '%2F')}", json={"every": 60})
    other.put("/v1/repeats/a", json={"every": 60})

    def names(query, program=operator):
        page = program.get(f"/v1/repeats?{query}").json()
        return [one["name"] for one in page["repeats"]], page["cursor"]

    assert names("", shop) == names("client=*", shop) == (["a", "b/c", "d"], None)
    assert names("client=shop") == (["a", "b/c", "d"], None)
    assert names("client=other", shop) == ([], None)
    assert names("client=other") == (["a"], None)
    found, cursor = names("client=*&limit=3")
    assert found == ["a", "a", "b/c"]
    assert names(f"client=*&limit=3&cursor={cursor}") == (["d"], None)


def test_of_another_client(shop, operator, other):
    """A token that may see all changes it; one that is limited to its own does not know it."""
    other.put("/v1/repeats/r", json={"every": 60})
    assert operator.get("/v1/repeats/r").status_code == 404
    assert operator.post("/v1/repeats/r/pause?client=other").json() == {"done": True}
    assert other.get("/v1/repeats/r").json()["paused"]
    assert shop.get("/v1/repeats/r?client=other").status_code == 404
    assert shop.delete("/v1/repeats/r?client=other").status_code == 404


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({}, "neither cron nor every is given; expected one of the two"),
        ({"cron": "* * * * *", "every": 5}, "cron and every are both given"),
        ({"cron": "61 * * * *"}, "cron is '61 * * * *'"),
        ({"cron": "* * * * *", "tz": "Mars"}, "tz is 'Mars'"),
        ({"every": 0}, "every is 0"),
        ({"every": 0.001}, "every is 0.001 s; expected 0.01 s or more"),
        ({"every": 5, "overlap": "x"}, "overlap is 'x'; expected skip, allow"),
        ({"every": 5, "missed": "x"}, "missed is 'x'; expected one, none, all"),
        ({"every": 5, "jitter": "x"}, "jitter: 'x' is not a valid duration"),
        ({"every": 5, "more": 1}, "more"),
    ],
)
def test_bad_settings(shop, bad, words):
    """They are refused, and the answer says why."""
    answer = shop.put("/v1/repeats/r", json=bad)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert words in answer.json()["message"]


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "cursor=x", "cursor=gaFhAA=="])
def test_a_bad_page(shop, query):
    """It is refused."""
    answer = shop.get(f"/v1/repeats?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


def test_rights(gateway):
    """Reading needs `read`, changing `submit`."""
    with gateway.program("reader", ("read",)) as reader:
        assert reader.get("/v1/repeats").status_code == 200
        assert reader.put("/v1/repeats/r", json={"every": 5}).status_code == 403
        assert reader.post("/v1/repeats/r/run").status_code == 403
    with gateway.program("writer", ("submit",)) as writer:
        assert writer.get("/v1/repeats").status_code == 403
