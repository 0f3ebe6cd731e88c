"""`purgatory jobs list` and `show`."""

import json
import re

from purgatory.cli.jobs.look import _facts
from purgatory.service.job_messages import JobAttempt, JobStatus


def test_list(run, rows, dead):
    """Jobs are listed with all filters, as a table of 80 columns or as JSON."""
    dead.schedule(60, kind="mail", job_id="later", tags=["t"])
    code, out, err = run("list", "--state", "dead", "--kind", "mail")
    assert (code, err) == (0, "")
    assert all(words in out for words in ("job", "dead", "mail", "ValueError", "2 jobs"))
    assert max(map(len, out.splitlines())) <= 80
    assert {row["job_id"] for row in rows("list")} == {"a", "b", "c", "later"}
    assert [row["job_id"] for row in rows("list", "--tag", "t")] == ["later"]
    assert [row["job_id"] for row in rows("list", "--client", "other")] == []
    assert [row["job_id"] for row in rows("list", "--state", "scheduled")] == ["later"]
    assert next(row["job_id"] for row in rows("list", "--order", "newest")) == "later"
    [row] = rows("list", "--kind", "print")
    assert (row["attempts"], row["payload"]) == (1, {"to": "c"})
    code, out, _ = run("list", "--limit", "1")
    assert "1 job; there may be more: --limit" in out


def test_each_job_has_a_line(run, rows, dead):
    """Ids are shortened, times are ages; `--wide` has all."""
    dead.schedule(7200, kind="a kind with a long name", job_id="i" * 60)
    code, out, _ = run("list", "--order", "newest")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    [found] = [line for line in lines if line[:1] == ["i" * 15 + "…"]]
    assert "in 1 h" in " ".join(found)
    assert len(lines) <= len(rows("list")) + 5
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in run("list", "--state", "dead")[1].split("\n")[3][:20]
    wide = run("list", "--wide", "--state", "scheduled")[1]
    assert "i" * 10 in wide
    assert "…" not in wide


def test_show(run, rows, dead):
    """All that is known is shown; a job that is not known is bad news."""
    code, out, err = run("show", "a")
    assert (code, err) == (0, "")
    for words in ("dead", "mail", "shop", "ValueError: no such address", '{"to": "a"}', "attempts"):
        assert words in out
    assert max(map(len, out.splitlines())) <= 80
    told = " ".join(out.partition("attempt 1")[2].split())
    assert re.search(r"took [\d.]+ s on [0-9a-f]+: ValueError: no such address", told)
    assert [row["state"] for row in rows("show", "b", "c")] == ["dead", "dead"]
    [[attempt]] = [row["history"] for row in rows("show", "b")]
    assert (attempt["number"], attempt["error"]) == (1, "ValueError: no such address")
    code, out, err = run("show", "x", "a", "--json")
    assert (code, err) == (1, "x: the server does not know this job\n")
    assert [json.loads(line)["job_id"] for line in out.splitlines()] == ["a"]


def test_attempts_after_a_retry():
    """Their numbers begin with 1 again, and the earlier attempts of these numbers hide none."""
    history = tuple(JobAttempt(1, at_ms, at_ms + 5, "", f"at {at_ms}") for at_ms in (10, 20, 30))
    facts = _facts(JobStatus("a", "dead", history=history))
    shown = [text for name, text in facts.items() if name.strip() == "attempt 1"]
    assert [text[-5:] for text in shown] == ["at 10", "at 20", "at 30"]
