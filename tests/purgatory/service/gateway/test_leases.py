"""Jobs over HTTP, for workers that are not Python: taken, kept, done, given back."""

import socket
import threading

import pytest

from purgatory.service.gateway import job_taker
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG


def schedule(shop, *op_ids, kind="mail", **others):
    """Schedule jobs that are due at once."""
    for op_id in op_ids:
        job = {"delay": 0, "kind": kind, "payload": {"to": op_id}, "op_id": op_id}
        assert shop.post("/v1/jobs", json=job | others).status_code == 201


def take(shop, *kinds, wait=HANG, **others):
    """Return the jobs that a request is given."""
    wanted = {"kinds": list(kinds or ["mail"]), "wait": wait}
    answer = shop.post("/v1/leases", json=wanted | others)
    assert answer.status_code == 200, answer.text
    return answer.json()["jobs"]


def ids(jobs):
    return [job["op_id"] for job in jobs]


def held(shop, verb, *jobs, **others):
    """Keep or end leases; returns for each whether it was held."""
    leases = [job["lease"] for job in jobs]
    answer = shop.post(f"/v1/leases/{verb}", json={"leases": leases, **others})
    assert answer.status_code == 200, answer.text
    return answer.json()["held"]


@pytest.fixture
def patient(start):
    """A program whose gateway waits as long as it is told."""
    with start(max_wait=HANG).program() as program:
        yield program


def test_take_and_acknowledge(shop, server, connect):
    """A job is leased with all that a handler gets, and done for ever when it is acknowledged."""
    schedule(shop, "a")
    [job] = take(shop)
    assert (job["op_id"], job["kind"], job["attempt"]) == ("a", "mail", 1)
    assert job["payload"] == {"to": "a"}
    assert job["due_ms"] >= job["submitted_ms"]
    assert job["traceparent"] is None
    assert held(shop, "keep", job) == [True]
    assert held(shop, "acknowledge", job) == [True]
    assert held(shop, "acknowledge", job) == held(shop, "keep", job) == [False]
    assert connect(server, name="shop").stats()["unacknowledged"] == 0
    assert take(shop, wait=0) == []


def test_it_waits(patient):
    """For the first jobs, of its kinds, as many as there are of those that it wants."""
    schedule(patient, "other", kind="other")
    found = []
    thread = threading.Thread(target=lambda: found.extend(take(patient, "a", "b", limit=3)))
    thread.start()
    schedule(patient, "1", kind="b")
    thread.join(HANG)
    assert ids(found) == ["1"]
    schedule(patient, "2", "3", kind="a")
    schedule(patient, "4", "5", kind="b")
    jobs = []
    while len(jobs) < 4:
        jobs += take(patient, "a", "b", limit=3)
    assert sorted(ids(jobs)) == ["2", "3", "4", "5"]
    assert take(patient, "a", "b", wait=0) == []


def test_the_wait_is_bounded(start):
    """By the gateway, whatever a request asks for."""
    with start(max_wait=0.01).program() as shop:
        assert take(shop, wait="1h") == []


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
    [dead] = connect(server, name="shop").dead_jobs()
    assert (dead.op_id, dead.attempts, dead.error) == ("a", 2, "NoMail: try later")


def test_a_program_that_vanishes(shop):
    """Its lease ends by time, and the job is another's."""
    schedule(shop, "a")
    [first] = take(shop, lease=0.2)
    [second] = take(shop, lease=60)
    assert second["op_id"] == "a"
    assert second["attempt"] > first["attempt"]  # by more than one, if a lease ends on its way
    assert second["token"] > first["token"]
    assert held(shop, "acknowledge", first, second) == [False, True]


def test_a_program_that_hangs_up(patient, server, connect):
    """What comes for it later is given to another one."""
    body = b'{"kinds": ["mail"], "wait": 60}'
    host, port = patient.base_url.host, patient.base_url.port
    head = (
        f"POST /v1/leases HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n"
        f"Authorization: {patient.headers['Authorization']}\r\n\r\n"
    )
    stats = connect(server, name="shop").stats
    with socket.create_connection((host, port)) as connection:
        connection.sendall(head.encode() + body)
        eventually(lambda: stats()["connections"] == 3)  # it waits, over a connection of its own
    schedule(patient, "a")
    [job] = take(patient)
    assert (job["op_id"], job["attempt"]) == ("a", 1)


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


def test_a_gateway_that_ends(start, server, connect):
    """Requests that wait are answered, with no jobs."""
    gateway, found = start(max_wait=HANG), []
    with gateway.program() as shop:
        thread = threading.Thread(target=lambda: found.append(take(shop)))
        thread.start()
        stats = connect(server).stats
        eventually(lambda: stats()["connections"] == 3)
        gateway.gateway.stop()
        thread.join(HANG)
    assert found == [[]]


def test_many_sets_of_kinds(shop, monkeypatch):
    """Connections of those that no request waits for are closed; if all are waited for, no more."""
    monkeypatch.setattr(job_taker, "MAX_TAKERS", 2)
    schedule(shop, "a", "b", kind="3")
    assert [ids(take(shop, kind, wait=0)) for kind in "0123"] == [[], [], [], ["a"]]

    def ask(kind, wait=HANG):
        return shop.post("/v1/leases", json={"kinds": [kind], "wait": wait})

    def wait_for(kind):
        eventually(lambda: ask(kind).is_success)

    waiting = [threading.Thread(target=wait_for, args=[kind]) for kind in "45"]
    for thread in waiting:
        thread.start()
    eventually(lambda: ask("6", 0).status_code == 429)
    assert ask("6", 0).json()["code"] == "too-many-workers"
    schedule(shop, "c", kind="4")
    schedule(shop, "d", kind="5")
    for thread in waiting:
        thread.join(HANG)
    assert ids(take(shop, "3")) == ["b"]


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("leases", {"kinds": []}, "kinds"),
        ("leases", {"kinds": ["a"], "lease": 0.01}, "lease_ms is 10; expected 100"),
        ("leases", {"kinds": ["a"], "lease": "soon"}, "'soon' is no duration"),
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
