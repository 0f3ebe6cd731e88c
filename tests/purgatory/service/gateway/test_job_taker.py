"""Requests that wait for jobs: how long, for which, and what becomes of these."""

import asyncio
import socket
import threading

import pytest

from purgatory.service.errors import Unavailable
from purgatory.service.gateway import job_taker
from tests.testing.eventually import eventually
from tests.testing.gateway_jobs import ids, schedule, take
from tests.testing.purgatory_harness import HANG


@pytest.fixture
def patient(start):
    """A program whose gateway waits as long as it is told."""
    with start(max_wait=HANG).program() as program:
        yield program


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
    assert (job["job_id"], job["attempt"]) == ("a", 1)


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


def test_a_revoked_token(start, server, connect):
    """A request that waits is given no job; another program has it at once."""
    gateway, answers = start(max_wait=HANG), []
    client = connect(server, name="shop")
    with gateway.program("shop", ["work"]) as worker, gateway.program("shop") as shop:
        connections = client.stats()["connections"]
        body = {"kinds": [""], "wait": HANG}
        waiting = threading.Thread(
            target=lambda: answers.append(worker.post("/v1/leases", json=body))
        )
        waiting.start()
        eventually(lambda: client.stats()["connections"] >= connections + 2)
        assert gateway.tokens.revoke(gateway.tokens.all()[0].id) == 1
        client.schedule(0, job_id="a")
        waiting.join(HANG)
        assert (answers[0].status_code, answers[0].json()["code"]) == (401, "token")
        [job] = shop.post("/v1/leases", json=body).json()["jobs"]
        assert (job["job_id"], job["attempt"]) == ("a", 1)


def test_a_connection_that_has_failed():
    """The next request gets another, as that of other requests would."""

    class Connection:
        refusal = None
        closed = False

        async def close(self):
            self.closed = True

    async def main():
        made = []

        def connect():
            made.append(Connection())
            return made[-1]

        takers, ask = job_taker.JobTakers(connect), job_taker.Ask(("a",), 5, 1000)
        first = takers.of(ask)
        assert takers.of(ask) is first
        made[0].refusal = Unavailable("the client has failed")
        assert takers.of(ask) is not first
        await takers.close()
        assert [each.closed for each in made] == [True, True]

    asyncio.run(main())
