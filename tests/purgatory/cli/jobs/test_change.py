"""`purgatory jobs cancel`, `retry`, `drop`, `run` and `reschedule`."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.testing.eventually import eventually


def test_cancel(run, client):
    """By id, or all that match; one that is not known is bad news."""
    for job_id in "abcd":
        client.schedule(60, job_id=job_id, kind="mail" if job_id < "c" else "print", tags=["t"])
    assert run("cancel", "a", "x") == (
        1,
        "1 job cancelled\n",
        "x: it is dead, has ended, or is not known\n",
    )
    assert client.job("a").state == "cancelled"
    assert run("cancel", "--tag", "t", "--kind", "print") == (0, "2 jobs cancelled\n", "")
    assert [client.job(job_id).state for job_id in "bcd"] == ["scheduled", *["cancelled"] * 2]
    assert run("cancel", "--tag", "none") == (0, "0 jobs cancelled\n", "")


def test_an_id_twice(run, client):
    """It counts once: the second call would say that nothing was done."""
    client.schedule(60, job_id="a")
    assert run("cancel", "a", "a") == (0, "1 job cancelled\n", "")


def test_dead_jobs(run, dead):
    """They are sent again and dropped, by id, by filters or all."""
    assert run("drop", "a", "x") == (
        1,
        "1 job dropped\n",
        "x: no dead job has this id\n",
    )
    assert run("retry", "--kind", "print") == (0, "1 job sent again\n", "")
    assert dead.job("c").state == "ready"
    assert run("retry", "--all") == (0, "1 job sent again\n", "")
    assert run("drop", "--all") == (0, "0 jobs dropped\n", "")
    assert list(dead.jobs(state="dead")) == []


def test_times(run, client):
    """Jobs are moved and run, by id."""
    for job_id in "ab":
        client.schedule(60, job_id=job_id)
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    assert run("reschedule", "a", "b", "--at", at.isoformat()) == (0, "2 jobs moved\n", "")
    assert client.job("b").due == at
    before = datetime.now(UTC)
    assert run("reschedule", "a", "--in", "1h")[0] == 0
    assert client.job("a").due >= before + timedelta(hours=1) - timedelta(milliseconds=5)
    assert run("run", "a", "x") == (
        1,
        "1 job to be run now\n",
        "x: it runs, is dead, has ended, or is not known\n",
    )
    eventually(lambda: client.job("a").state == "ready")


@pytest.mark.parametrize("command", ["cancel", "retry", "drop"])
def test_nothing_is_selected(run, command):
    """That is an error, as is an id beside a filter."""
    for arguments in ((), ("a", "--tag", "t")):
        code, _, err = run(command, *arguments)
        assert code == 2
        assert f"jobs {command}: expected one ID or more, or else filters" in err
