"""`/v1/batch/jobs`: many jobs at once, by a filter."""

import pytest

from purgatory.service import Client
from tests.purgatory.service.gateway.console.driver import make_dead
from tests.testing.purgatory_harness import HANG


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
    monkeypatch.setattr("purgatory.service.gateway.bulk_jobs._PAGE", 2)
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
