"""`purgatory stats` and `purgatory top`."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


def test_stats(run, at, service):
    """The server's figures, as a table and as JSON."""
    assert json.loads(run("stats", "--json")[1])["next_due_seconds"] == -1
    run("defer", "k", "--in", 60)
    assert 0 < json.loads(run("stats", "--json")[1])["next_due_seconds"] <= 60
    assert "unacknowledged" in run("stats")[1]
    figures = json.loads(run("stats", "--json")[1])
    assert figures["pending"] == 1
    assert figures.keys() == service.server.stats().as_dict().keys()


def test_top(run, at):
    """It refreshes as often as `--count` says; without a terminal it prints."""
    run("defer", "k", "--in", 60)
    code, out, err = run("top", "--count", 2, "--interval", 0.01)
    assert (code, err) == (0, "")
    assert "pending" in out
    assert "expired/s" in out


def test_top_shows_jobs(run, at):
    """Jobs are there by kind and state."""
    run("jobs", "schedule", "--kind", "mail", "--in", "1h")
    out = run("top", "--count", 1)[1]
    assert "scheduled" in out
    assert "mail" in out
