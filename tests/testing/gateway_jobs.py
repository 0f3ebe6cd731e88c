"""Jobs at a gateway: what programs ask for."""

from tests.testing.purgatory_harness import HANG


def schedule(shop, *job_ids, kind="mail", **others):
    """Schedule jobs that are due at once."""
    for job_id in job_ids:
        job = {"delay": 0, "kind": kind, "payload": {"to": job_id}, "job_id": job_id}
        assert shop.post("/v1/jobs", json=job | others).status_code == 201


def take(shop, *kinds, wait=HANG, **others):
    """Return the jobs that a request is given."""
    wanted = {"kinds": list(kinds or ["mail"]), "wait": wait}
    answer = shop.post("/v1/leases", json=wanted | others)
    assert answer.status_code == 200, answer.text
    return answer.json()["jobs"]


def ids(jobs):
    return [job["job_id"] for job in jobs]
