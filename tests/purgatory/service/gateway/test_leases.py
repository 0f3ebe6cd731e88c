"""Jobs over HTTP, for workers that are not Python: taken, kept, done, given back."""

import json

import pytest

from tests.testing.gateway_jobs import schedule, take
from tests.testing.recording_waiter import HANG


def held(shop, verb, *jobs, **others):
    """Keep or end leases; returns for each whether it was held."""
    leases = [job["lease"] for job in jobs]
    answer = shop.post(f"/v1/leases/{verb}", json={"leases": leases, **others})
    assert answer.status_code == 200, answer.text
    return answer.json()["held"]


def test_take_and_acknowledge(shop, server, connect):
    """A job is leased with all that a handler gets, and done for ever when it is acknowledged."""
    schedule(shop, "a")
    [job] = take(shop)
    assert (job["job_id"], job["kind"], job["attempt"]) == ("a", "mail", 1)
    assert job["payload"] == {"to": "a"}
    assert job["due_ms"] >= job["submitted_ms"]
    assert job["traceparent"] is None
    assert held(shop, "keep", job) == [True]
    assert held(shop, "acknowledge", job) == [True]
    assert held(shop, "acknowledge", job) == held(shop, "keep", job) == [False]
    assert connect(server, name="shop").stats()["unacknowledged"] == 0
    assert take(shop, wait=0) == []


def test_results(shop, server, connect):
    """The client that waits for a job gets its result; without one, None."""
    client = connect(server, name="shop")
    schedule(shop, "a", "b", "c")
    jobs = take(shop, limit=3)
    assert held(shop, "acknowledge", *jobs[:2], results=[{"sent": [1, 2.5]}, None]) == [True, True]
    assert held(shop, "acknowledge", jobs[2]) == [True]
    results = [client.result(job["job_id"], timeout=HANG) for job in jobs]
    assert results == [{"sent": [1, 2.5]}, None, None]


@pytest.mark.parametrize(
    ("results", "status", "reason"),
    [
        ([1], 400, "1 results; expected one for each lease, or none"),
        ([1, 2, 3], 400, "3 results; expected"),
        ([1, "x" * 100_000], 413, "a result of 100005 bytes; expected at most 65536"),
        ([1, json.loads("[" * 600 + "]" * 600)], 400, "levels"),
    ],
)
def test_bad_results(shop, results, status, reason):
    """Nothing is done: the jobs stay leased."""
    schedule(shop, "a", "b")
    jobs = take(shop, limit=2)
    body = {"leases": [job["lease"] for job in jobs], "results": results}
    answer = shop.post("/v1/leases/acknowledge", json=body)
    assert answer.status_code == status
    assert reason in answer.json()["message"]
    assert held(shop, "keep", *jobs) == [True, True]


def test_a_result_too_large_for_a_new_gateway(start, shop):
    """Nothing is done, though this gateway has not heard of the limit yet."""
    schedule(shop, "a", "b")
    jobs = take(shop, limit=2)
    body = {"leases": [job["lease"] for job in jobs], "results": [1, "x" * 100_000]}
    with start().program() as program:
        answer = program.post("/v1/leases/acknowledge", json=body)
    assert answer.status_code == 413
    assert held(shop, "keep", *jobs) == [True, True]


def test_a_failed_attempt(shop, server, connect):
    """It is tried again after the delay, then it is dead; what is given back counts for nothing."""
    schedule(shop, "a")
    [job] = take(shop, max_attempts=2)
    assert held(shop, "return", job) == [True]
    [job] = take(shop, max_attempts=2)
    assert job["attempt"] == 1
    error = {"type": "NoMail", "message": "try later"}
    assert held(shop, "return", job, error=error, delay="10ms") == [True]
    [job] = take(shop, max_attempts=2)
    assert job["attempt"] == 2
    assert held(shop, "return", job, error=error) == [True]
    [dead] = connect(server, name="shop").jobs(state="dead")
    assert (dead.job_id, dead.attempts, dead.error) == ("a", 2, "NoMail: try later")


def test_a_program_that_vanishes(shop):
    """Its lease ends by time, and the job is another's."""
    schedule(shop, "a")
    [first] = take(shop, lease=0.2)
    [second] = take(shop, lease=60)
    assert second["job_id"] == "a"
    assert second["attempt"] > first["attempt"]  # by more than one, if a lease ends on its way
    assert second["token"] > first["token"]
    assert held(shop, "acknowledge", first, second) == [False, True]


def test_a_gateway_that_restarts(start):
    """Leases go on: the next gateway, or another one, keeps and ends them."""
    first, second = start(), start()
    with first.program() as one, second.program() as two:
        schedule(one, "a", "b")
        jobs = take(one) + take(one)
        first.gateway.stop()
        first.wait()
        assert held(two, "keep", *jobs) == [True, True]
        assert take(two, wait=0) == []
        assert held(two, "acknowledge", *jobs) == [True, True]


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("leases", {"kinds": []}, "kinds"),
        ("leases", {"kinds": ["a"], "lease": 0.01}, "lease is 0.01 s; expected 0.1 s or more"),
        ("leases", {"kinds": ["a"], "lease": "soon"}, "'soon' is not a valid duration"),
        ("leases", {"kinds": ["a"], "limit": 0}, "limit"),
        ("leases", {"kinds": ["a"], "max_attempts": 0}, "max_attempts"),
        ("leases/keep", {"leases": ["nonsense"]}, "leases"),
        ("leases/acknowledge", {}, "leases"),
        ("leases/return", {"leases": [], "delay": 1}, "delay comes with an error"),
    ],
)
def test_bad_requests(shop, path, body, reason):
    """Each says what is wrong."""
    answer = shop.post(f"/v1/{path}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert reason in answer.json()["message"]


def test_a_job_that_is_cancelled_meanwhile(shop, server, connect):
    """*Keep* tells so; acknowledged the job is done, given back it is cancelled."""
    client = connect(server, name="shop")
    for job_id, verb, end in (("a", "acknowledge", "done"), ("b", "return", "cancelled")):
        schedule(shop, job_id)
        [job] = take(shop)
        body = {"leases": [job["lease"]]}
        assert shop.post("/v1/leases/keep", json=body).json() == {
            "held": [True],
            "cancelled": [False],
        }
        assert client.cancel_job(job_id)
        assert shop.post("/v1/leases/keep", json=body).json() == {
            "held": [True],
            "cancelled": [True],
        }
        assert held(shop, verb, job) == [True]
        assert client.job(job_id).state == end
