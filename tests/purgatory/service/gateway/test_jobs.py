"""`/v1/jobs` through a gateway and a server."""

import queue
from datetime import UTC, datetime, timedelta

import pytest

from purgatory.service import Worker
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
    assert shop.post("/v1/jobs", json=wanted).json() == {"job_id": "a", "is_new": False}


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
