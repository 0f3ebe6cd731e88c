"""An operator's ten tasks in a terminal: one command each. The console's are its browser tests."""

import pytest

from purgatory.cli.entry_point import main
from purgatory.service import Client
from tests.purgatory.service.gateway.console.driver import make_dead
from tests.testing.purgatory_harness import HANG


@pytest.fixture
def client(server):
    """A client of the commands' name."""
    with Client(server.address, name="shop", timeout=HANG) as made:
        yield made


@pytest.fixture
def run(server, monkeypatch, capsys):
    """Run one command, as it is typed; returns what it prints."""
    monkeypatch.setenv("PURGATORY_ADDRESS", server.address)
    monkeypatch.setenv("PURGATORY_NAME", "shop")
    monkeypatch.setenv("COLUMNS", "80")

    def call(command):
        capsys.readouterr()
        assert main(command.split()) == 0
        return "".join(capsys.readouterr())

    return call


def test_cancel_the_jobs_of_a_customer(run, client):
    """By their tag."""
    for n in range(12):
        client.schedule(3600, kind="mail", job_id=f"a-{n}", tags=["customer:42"])
    client.schedule(3600, kind="mail", job_id="b", tags=["customer:43"])
    assert "12 jobs cancelled" in run("jobs cancel --tag customer:42")
    assert client.job_counts(state="scheduled") == {("mail", "scheduled"): 1}


def test_why_a_job_failed(run, client):
    """Its error is among what is known of it."""
    make_dead(client, "invoice-17", kind="invoice", error="no such customer: 99")
    assert "no such customer: 99" in run("jobs show invoice-17")


def test_pause_mails(run, client):
    """A kind, for all workers."""
    run("jobs pause mail")
    assert [(each.kind, each.paused) for each in client.limits()] == [("mail", True)]


def test_run_a_report_now(run, client):
    """A repeat has one job more."""
    client.repeat("nightly", cron="30 2 * * *", kind="report")
    run("repeats run nightly")
    assert client.job_counts() == {("report", "ready"): 1}


def test_reschedule(run, client):
    """A job has another time."""
    client.schedule(3600, kind="mail", job_id="a")
    before = client.job("a").due_ms
    run("jobs reschedule a --in 2h")
    assert client.job("a").due_ms - before > 3_000_000


def test_retry_all_dead_jobs_of_a_kind(run, client):
    """And no others."""
    make_dead(client, "a", "b", "c")
    make_dead(client, "d", kind="print")
    assert "3 jobs sent again" in run("jobs retry --kind mail")
    assert client.job_counts() == {("mail", "ready"): 3, ("print", "dead"): 1}


def test_who_waits_for_a_key(run, client):
    """The operations are listed."""
    for n in range(3):
        client.submit("order:17", timeout=3600, op_id=f"wait-{n}")
    client.submit("order:18", timeout=3600, op_id="other")
    printed = run("list --waits-for order:17")
    assert all(f"wait-{n}" in printed for n in range(3))
    assert "other" not in printed


def test_complete_a_key(run, client):
    """With a value."""
    client.submit("order:17", timeout=3600, op_id="a")
    run('complete order:17 --value {"paid":true}')
    assert client.query("a").result == {"paid": True}


def test_what_runs_next(run, client):
    """Scheduled jobs are listed due first."""
    for n in (3, 1, 2):
        client.schedule(1000 * n, kind="mail", job_id=f"a-{n}")
    printed = run("jobs list --state scheduled")
    assert printed.index("a-1") < printed.index("a-2") < printed.index("a-3")


def test_limit_the_calls_of_an_api(run, client):
    """So many a second, for all workers."""
    run("jobs limit call --per-second 2.5")
    assert [(each.kind, each.per_second) for each in client.limits()] == [("call", 2.5)]
