"""`purgatory jobs schedule`."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from purgatory.service import Worker


def test_schedule(run, client):
    """The id is printed; the job is as the options say; a known one is bad news."""
    wanted = (
        *("schedule", "--in", "1h", "--kind", "mail", "--id", "a", "--payload", '{"to": "ada"}'),
        *("--tag", "t", "--tag", "u", "--unless", "paid", "--priority", "-3"),
        *("--unique-for", "2d", "--start-within", "5m"),
    )
    assert run(*wanted) == (0, "a\n", "")
    job = client.job("a")
    assert (job.state, job.kind, job.payload) == ("scheduled", "mail", {"to": "ada"})
    assert (sorted(job.tags), job.unless, job.priority) == (["t", "u"], ("paid",), -3)
    assert job.due - job.submitted == timedelta(hours=1)
    assert run(*wanted) == (1, "a: the server had this job already\n", "")
    code, out, _ = run(*wanted, "--json")
    assert (code, json.loads(out)) == (1, {"job_id": "a", "is_new": False})


def test_a_moment(run, client):
    """`--at` is a moment; the id is made up."""
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    code, out, _ = run("schedule", "--at", at.isoformat())
    assert code == 0
    assert client.job(out.strip()).due == at


def test_waiting(run, client):
    """The handler's value is printed, of a known job, too; a job that fails is bad news."""
    worker = Worker(client.address, name="shop", max_attempts=1)
    worker.on("add")(lambda job: sum(job.payload))

    @worker.on("bad")
    def fail(job):
        raise ValueError("no")

    with worker:
        wanted = ("schedule", "--in", "0", "--wait", "--kind")
        for _ in range(2):
            assert run(*wanted, "add", "--payload", "[1, 2]", "--id", "a") == (0, "3\n", "")
        code, out, _ = run(*wanted, "add", "--payload", "[1, 2]", "--id", "a", "--json")
        assert (code, json.loads(out)) == (0, {"job_id": "a", "is_new": False, "value": 3})
        code, out, err = run(*wanted, "bad", "--id", "x")
    assert (code, out) == (1, "")
    assert err.startswith("job 'x' is dead after attempt 1: ValueError: no")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "one of the arguments --in --at is required"),
        (("--in", "1", "--at", "2027-03-01T09:00"), "not allowed with"),
        (("--at", "soon"), "expected a moment"),
        (("--in", "soon"), "is not a valid duration"),
        (("--in", "-1"), "expected"),
        (("--in", "1", "--priority", "11"), "at most 10"),
        (("--in", "400d"), "delay is 34560000.0 s; expected at most"),
        (("--in", "1", "--payload", "1" * 30), "it has an integer beyond 64 bits"),
        (("--in", "1", "--priority", "high"), "'high'; expected a whole number"),
    ],
)
def test_bad_options(run, arguments, words):
    """They are named in one line."""
    code, out, err = run("schedule", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
