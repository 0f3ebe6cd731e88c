"""`/v1/jobs` through a gateway and a server."""

import queue
from datetime import UTC, datetime, timedelta

import pytest

from purgatory.service import Client, JobFailed, Worker
from tests.purgatory.service.gateway.console.driver import make_dead
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG


def test_a_job_for_a_worker(gateway, shop, server):
    """It is due after its delay, and is new once."""
    done = queue.SimpleQueue()
    worker = Worker(server.address, name="shop")
    worker.on("mail")(lambda job: done.put((job.id, job.payload)))
    wanted = {"delay": 0.05, "kind": "mail", "payload": {"to": "ada"}, "job_id": "a"}
    with worker:
        answer = shop.post("/v1/jobs", json=wanted)
        assert (answer.status_code, answer.json()) == (201, {"job_id": "a", "is_new": True})
        assert done.get(timeout=HANG) == ("a", {"to": "ada"})
    again = shop.post("/v1/jobs", json=wanted)
    assert (again.status_code, again.json()) == (201, {"job_id": "a", "is_new": False})


def test_a_moment(shop):
    """A job is due at a moment, in any zone, instead of after a delay."""
    at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert shop.post("/v1/jobs", json={"at": at, "job_id": "a"}).status_code == 201


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"delay": 1, "at": "2027-03-01T09:00:00Z"},
        {"at": "2027-03-01T09:00:00"},
        {"at": "tomorrow"},
        {"delay": "soon"},
        {"delay": -1},
        {"delay": 1, "priority": 11},
        {"delay": 1, "tags": "t"},
        {"delay": 1, "op_id": "a"},
        {"delay": 1, "unique_for": -1},
    ],
)
def test_a_bad_job(shop, bad):
    """It is refused, and says why."""
    answer = shop.post("/v1/jobs", json=bad)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert answer.json()["message"]


@pytest.mark.parametrize(
    "query",
    ["state=expired", "order=old", "limit=0", "limit=501", "cursor=x", "cursor=1.", "limit=x"],
)
def test_a_bad_filter(shop, query):
    """It is refused."""
    answer = shop.get(f"/v1/jobs?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


def test_methods(shop):
    """A path has its methods; actions are POST alone."""
    for path, methods in {
        "/v1/jobs": {"GET", "HEAD", "OPTIONS", "POST"},
        "/v1/jobs/a": {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH"},
        "/v1/jobs/run": {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH"},
        "/v1/jobs/a/run": {"OPTIONS", "POST"},
        "/v1/jobs/a%2Fb/retry": {"OPTIONS", "POST"},
        "/v1/jobs/a%2Frun": {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH"},
    }.items():
        answer = shop.options(path)
        assert set(answer.headers["allow"].split(", ")) == methods, path
    assert shop.post("/v1/jobs/run").status_code == 405


@pytest.fixture
def dead(server):
    """A dead job "d" of the client "shop"."""
    worker = Worker(server.address, name="shop", max_attempts=1)

    @worker.on("mail")
    def fail(job):
        raise ValueError("no such address")

    with worker, Client(server.address, name="shop", timeout=HANG) as client:
        job = client.schedule(0, kind="mail", job_id="d", payload={"to": "ada"})
        with pytest.raises(JobFailed):
            job.result(HANG)
        yield client


def test_looking(shop, dead):
    """All that is known of a job is told; also of one whose id has a slash."""
    found = shop.get("/v1/jobs/d").json()
    assert (found["state"], found["kind"], found["client"]) == ("dead", "mail", "shop")
    assert (found["attempts"], found["error"]) == (1, "ValueError: no such address")
    assert (found["payload"], found["result"]) == ({"to": "ada"}, None)
    [attempt] = found["history"]
    assert (attempt["number"], attempt["error"]) == (1, "ValueError: no such address")
    assert found["began_ms"] == attempt["began_ms"] <= attempt["ended_ms"] == found["ended_ms"]
    assert "history" not in shop.get("/v1/jobs").json()["jobs"][0]
    shop.post("/v1/jobs", json={"delay": "1h", "job_id": "a/b", "tags": ["t"], "priority": -2})
    found = shop.get("/v1/jobs/a%2Fb").json()
    assert (found["job_id"], found["state"], found["tags"]) == ("a/b", "scheduled", ["t"])
    assert found["due_ms"] - found["submitted_ms"] == 3_600_000
    answer = shop.get("/v1/jobs/unknown")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown")


def test_pages(shop):
    """A page ends with a cursor, the last one without; filters select."""
    for n in range(7):
        body = {"delay": 100 + n, "job_id": f"{n}", "kind": f"k{n % 2}", "tags": [f"t{n % 3}"]}
        shop.post("/v1/jobs", json=body)
    for order, expected in (("due", "0123456"), ("newest", "6543210")):
        found, cursor = "", {}
        while cursor is not None:
            page = shop.get("/v1/jobs", params={"order": order, "limit": 3} | cursor).json()
            found += "".join(job["job_id"] for job in page["jobs"])
            cursor = page["cursor"] and {"cursor": page["cursor"]}
        assert found == expected
    page = shop.get("/v1/jobs?kind=k1&tag=t0&state=scheduled&client=shop").json()
    assert [job["job_id"] for job in page["jobs"]] == ["3"]
    assert shop.get("/v1/jobs?state=done").json() == {"jobs": [], "cursor": None}


def test_changes(shop):
    """A job is moved, run and cancelled; then nothing is done any more."""
    shop.post("/v1/jobs", json={"delay": "1h", "job_id": "a"})
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    assert shop.patch("/v1/jobs/a", json={"at": at.isoformat()}).json() == {"done": True}
    assert shop.get("/v1/jobs/a").json()["due_ms"] == at.timestamp() * 1000
    assert shop.patch("/v1/jobs/a", json={"delay": "2h"}).json() == {"done": True}
    assert shop.post("/v1/jobs/a/run").json() == {"done": True}
    eventually(lambda: shop.get("/v1/jobs/a").json()["state"] == "ready")
    assert shop.delete("/v1/jobs/a").json() == {"done": True}
    assert shop.get("/v1/jobs/a").json()["state"] == "cancelled"
    assert shop.delete("/v1/jobs/a").json() == {"done": False}
    assert shop.post("/v1/jobs/a/retry").json() == {"done": False}
    for body in ({}, {"delay": 1, "at": at.isoformat()}, {"delay": "soon"}):
        assert shop.patch("/v1/jobs/a", json=body).status_code == 400
    assert shop.patch("/v1/jobs/unknown", json={"delay": 1}).status_code == 404


def test_a_dead_job(gateway, shop, dead):
    """It is retried, or dropped; that needs the right to work alone."""
    with gateway.program(rights=("submit", "read")) as weak:
        assert weak.delete("/v1/jobs/d").status_code == 403
        assert weak.post("/v1/jobs/d/retry").status_code == 403
    with gateway.program(rights=("complete", "read")) as reader:
        for path in ("/v1/jobs/d", "/v1/jobs/unknown"):
            assert reader.delete(path).status_code == 403
    shop.post("/v1/jobs", json={"delay": 60, "job_id": "a"})
    with gateway.program(rights=("work", "read")) as worker:
        assert worker.delete("/v1/jobs/a").status_code == 403
        assert worker.delete("/v1/jobs/d").json() == {"done": True}
    assert shop.delete("/v1/jobs/d").status_code == 404


def test_jobs_of_others(gateway, shop):
    """A token for its own name sees and changes none of another client."""
    shop.post("/v1/jobs", json={"delay": "1h", "job_id": "a"})
    with gateway.program("other") as other:
        assert other.get("/v1/jobs").json()["jobs"] == []
        assert other.get("/v1/jobs?client=shop").json()["jobs"] == []
        for method, path in (
            *(("GET", "/v1/jobs/a"), ("DELETE", "/v1/jobs/a")),
            *(("POST", "/v1/jobs/a/run"), ("POST", "/v1/jobs/a/retry")),
        ):
            assert other.request(method, path).status_code == 404
    assert shop.get("/v1/jobs/a").json()["state"] == "scheduled"


@pytest.fixture
def client(server):
    """A client of the token's name."""
    with Client(server.address, name="shop", timeout=HANG) as made:
        yield made


@pytest.fixture
def other(server):
    """A client of another name."""
    with Client(server.address, name="other", timeout=HANG) as made:
        yield made


def test_cancel(shop, client):
    """All that match, and no other; the answer counts them."""
    for n in range(700):
        client.schedule_later(3600, kind="mail", job_id=f"a-{n}", tags=["customer:42"])
    client.flush(HANG)
    client.schedule(3600, kind="mail", job_id="b")
    answer = shop.post("/v1/batch/jobs/cancel", json={"tag": "customer:42"})
    assert (answer.status_code, answer.json()) == (200, {"count": 700})
    assert client.job_counts() == {("mail", "cancelled"): 700, ("mail", "scheduled"): 1}
    assert shop.post("/v1/batch/jobs/cancel", json={"tag": "customer:42"}).json() == {"count": 0}


@pytest.mark.parametrize("body", [{}, {"state": "old"}, {"tags": "a"}, {"tag": 1, "x": 2}, []])
def test_bad_selections(shop, body):
    """Without a filter, or with an unknown one, nothing is cancelled."""
    answer = shop.post("/v1/batch/jobs/cancel", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


def test_retry(shop, client, monkeypatch):
    """The dead jobs that match, page by page."""
    monkeypatch.setattr("purgatory.service.gateway.jobs._PAGE", 2)
    make_dead(client, *[f"a-{n}" for n in range(5)], tags=["t"])
    make_dead(client, "b", kind="print")
    answer = shop.post("/v1/batch/jobs/retry", json={"kind": "mail", "tag": "t"})
    assert (answer.status_code, answer.json()) == (200, {"count": 5})
    assert client.job_counts() == {("mail", "ready"): 5, ("print", "dead"): 1}
    assert shop.post("/v1/batch/jobs/retry", json={}).json() == {"count": 1}


def test_own_jobs_only(gateway, shop, client, other):
    """A token without `administer` changes the jobs of its client alone."""
    for each in (client, other):
        each.schedule(3600, kind="mail", job_id=f"wait-{each.name}", tags=["t"])
        make_dead(each, f"dead-{each.name}", kind="print", tags=["t"])
    assert shop.post("/v1/batch/jobs/cancel", json={"kind": "mail"}).json() == {"count": 1}
    assert shop.post("/v1/batch/jobs/retry", json={"kind": "print"}).json() == {"count": 1}
    assert other.job("wait-other").state == "scheduled"
    assert other.job("dead-other").state == "dead"
    for path in ("cancel", "retry"):
        answer = shop.post(f"/v1/batch/jobs/{path}", json={"tag": "t", "client": "other"})
        assert (answer.status_code, answer.json()["code"]) == (403, "not-allowed")
    with gateway.program("boss", ["administer"]) as boss:
        cancel = {"client": "other", "kind": "mail"}
        assert boss.post("/v1/batch/jobs/cancel", json=cancel).json() == {"count": 1}
        assert boss.post("/v1/batch/jobs/retry", json={"client": "other"}).json() == {"count": 1}


def test_limits(shop):
    """What is not given stays; 0 takes a limit away."""
    assert shop.get("/v1/limits").json() == {"limits": []}
    for body, expected in (
        ({"kind": "mail", "paused": True}, (True, None, None)),
        ({"kind": "mail", "running": 3, "per_second": 2.5}, (True, 3, 2.5)),
        ({"kind": "mail", "paused": False}, (False, 3, 2.5)),
        ({"kind": "mail", "running": 2**63 - 1}, (False, 2**63 - 1, 2.5)),
        ({"kind": "mail", "running": 0}, (False, None, 2.5)),
    ):
        answer = shop.patch("/v1/limits", json=body)
        assert answer.status_code == 200
        [limit] = answer.json()["limits"]
        assert limit.pop("kind") == "mail"
        assert tuple(limit.values()) == expected
        assert shop.get("/v1/limits").json() == answer.json()
    assert shop.patch("/v1/limits", json={"kind": "mail", "per_second": 0}).json()["limits"] == []


def test_a_kind_without_a_name(shop):
    """It has limits, too."""
    answer = shop.patch("/v1/limits", json={"kind": "", "paused": True})
    assert [each["kind"] for each in answer.json()["limits"]] == [""]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"kind": 1},
        {"kind": "a", "running": -1},
        {"kind": "a", "running": 2**63},
        {"kind": "a", "per_second": "fast"},
        {"kind": "a", "x": 1},
        {"kind": "a"},
        {"kind": "a", "running": None, "per_second": None, "paused": None},
        {"kind": "a", "running": "1"},
        {"kind": "a", "paused": 1},
    ],
)
def test_bad_limits(shop, body):
    """They are refused, and say where."""
    answer = shop.patch("/v1/limits", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
