"""The answers about jobs: statuses, pages and counts."""

import pytest

from purgatory.service.encoding import encode, unpack
from purgatory.service.job_messages import (
    CountJobs,
    JobEnds,
    JobFilter,
    JobPage,
    JobStates,
    ListJobs,
    Overview,
    ReadJobs,
    ReadOverview,
    SetLimit,
    WatchJobs,
)
from purgatory.service.protocol import Failure, How
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.records.retention import READABLE_MS
from tests.testing.step_server import StepServer, job, operation


def pages(server, order="due", limit=100, **wanted):
    """Return the ids of all pages of a list."""
    found, after = [], None
    while True:
        page = server.ask(ListJobs, JobFilter(**wanted), order, limit, after)
        assert isinstance(page, JobPage)
        assert len(page.jobs) <= limit
        found += [one.job_id for one in page.jobs]
        after = page.after
        if after is None:
            return found


def ask_own(server, client, request, *args):
    """Ask with a key that is limited to its client name; returns the answer."""
    server.seq += 1
    command = ClientRequest(b"r", client, request(server.seq, *args), 1, own_only=True)
    server.store_loop.mailbox.send(command)
    [answer] = server.step()[0]
    return answer


def test_unknown(step_server):
    """An unknown id, and that of an operation, are no jobs."""
    step_server.submit(operation("op"), job("a"))
    assert step_server.job_states("nobody", "op", "a", "a") == [
        "unknown",
        "unknown",
        "scheduled",
        "scheduled",
    ]


def test_pages(step_server):
    """Each job is on one page, in order, whatever the size of pages."""
    names = [f"job-{number}" for number in range(25)]
    for at, name in enumerate(names):
        step_server.submit(job(name, timeout_ms=1000 + (7 * at) % 25))
    by_due = sorted(names, key=lambda name: (7 * int(name[4:])) % 25)
    for limit in (1, 3, 25, 100):
        assert pages(step_server, limit=limit) == by_due
        assert pages(step_server, "newest", limit=limit) == names[::-1]


@pytest.mark.parametrize("order", ["due", "newest"])
def test_a_list_has_what_can_be_read(step_server, order):
    """An ended job is in no list and no count after its period; one without a period stays."""
    server = step_server
    server.submit(
        job("short", timeout_ms=0, unique_ms=0),
        job("long", timeout_ms=0, unique_ms=READABLE_MS),
        job("made up", timeout_ms=0),
        job("dead", timeout_ms=0, unique_ms=0),
        job("scheduled", timeout_ms=10**6, unique_ms=0),
    )
    server.pass_time(1)
    *done, dead = server.work(attempts=1)
    server.finish(*done)
    server.finish(dead, how=How.FAILED)
    for left_out in [{"short"}, {"short", "long"}]:
        assert len(pages(server, order)) == 6 - len(left_out)
        server.pass_time(READABLE_MS)
        expected = {"short", "long", "made up", "dead", "scheduled"} - left_out
        assert set(pages(server, order)) == expected
        assert sum(server.job_counts().values()) == len(expected)
        assert "unknown" not in server.job_states(*expected)
        assert server.job_states(*left_out) == ["unknown"] * len(left_out)


def test_filters(step_server):
    """By kind, state, tag and client."""
    step_server.submit(job("mail", kind="mail", tags=("x",)), job("bill", kind="bill"))
    step_server.submit(job("other", kind="mail", timeout_ms=0), client="d")
    step_server.pass_time(2)
    assert pages(step_server, kind="mail") == ["other", "mail"]
    assert pages(step_server, kind="mail", state="ready") == ["other"]
    assert pages(step_server, tag="x") == ["mail"]
    assert pages(step_server, client="c") == ["mail", "bill"]
    assert pages(step_server, state="dead") == []


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((JobFilter(), "oldest"), "order is 'oldest'; expected one of"),
        ((JobFilter(state="expired"),), "state is 'expired'; expected one of"),
    ],
)
def test_bad_lists(step_server, args, words):
    """They are refused with the value and what was expected."""
    failure = step_server.ask(ListJobs, *args)
    assert isinstance(failure, Failure)
    assert failure.code == "malformed"
    assert words in failure.message


def test_many_that_do_not_match(step_server, monkeypatch):
    """A page is made in portions; it ends early rather than looking at too many at once."""
    monkeypatch.setattr("purgatory.service.server.jobs.job_answers.LOOKED_AT", 7)
    monkeypatch.setattr("purgatory.service.server.jobs.job_answers.MAX_PORTIONS", 3)
    step_server.submit(*[job(f"job-{n}", timeout_ms=1000 + n) for n in range(50)])
    step_server.submit(job("last", timeout_ms=9999), client="d")
    short = step_server.ask(ListJobs, JobFilter(client="d"))
    assert short.jobs == []
    assert short.after is not None
    assert pages(step_server, client="d") == ["last"]


def test_counts(step_server):
    """By kind and state."""
    assert step_server.job_counts() == {}
    step_server.submit(job("a", kind="mail"), job("b", kind="mail"), job("c", kind="bill"))
    step_server.cancel("b")
    expected = {("mail", "scheduled"): 1, ("mail", "cancelled"): 1, ("bill", "scheduled"): 1}
    assert step_server.job_counts() == expected
    step_server.crash()
    assert step_server.job_counts() == expected


@pytest.mark.parametrize("looked_at", [1, 2, 2000])
def test_counts_that_match(step_server, monkeypatch, looked_at):
    """A filter selects; jobs are looked at in portions, and each counts once."""
    monkeypatch.setattr("purgatory.service.server.jobs.job_answers.LOOKED_AT", looked_at)
    step_server.submit(job("a", kind="mail", tags=("t",)), job("b", kind="mail"))
    step_server.submit(job("c", kind="bill", tags=("t",)), job("e", kind="mail", tags=("t",)))
    step_server.submit(job("d", kind="mail", tags=("t",)), client="d")
    step_server.cancel("e")
    for wanted, expected in (
        (JobFilter(tag="t"), {"mail scheduled": 2, "mail cancelled": 1, "bill scheduled": 1}),
        (JobFilter(tag="t", client="d"), {"mail scheduled": 1}),
        (JobFilter(kind="mail", state="scheduled"), {"mail scheduled": 3}),
        (JobFilter(tag="other"), {}),
    ):
        counts = step_server.ask(CountJobs, wanted).counts
        assert {f"{kind} {state}": n for kind, state, n in counts} == expected
    failure = step_server.ask(CountJobs, JobFilter(state="late"))
    assert (failure.code, "'late'" in failure.message) == ("malformed", True)


def test_counts_of_many_kinds(step_server):
    """The busiest hundred kinds have counts of their own; the others share those of "other"."""
    step_server.submit(*[job(f"few {n}", kind=f"kind {n}") for n in range(103)])
    step_server.submit(*[job(f"more {n}", kind=f"kind {n}") for n in range(99)])
    step_server.submit(*[job(f"own {n}", kind="other") for n in range(5)])
    counts = {kind: n for kind, _, n in step_server.ask(CountJobs).counts}
    assert counts.pop("other") == 5 + 4
    assert counts == {f"kind {n}": 2 for n in range(99)}


def test_the_overview(step_server):
    """Jobs by kind, with what keeps them waiting, and operations by state; of one client, too."""
    step_server.submit(job("a", kind="mial"), job("b", kind="mail"), job("c", kind="sms"))
    step_server.submit(operation("x", "k"), operation("y", "l", timeout_ms=60_000))
    step_server.submit(job("d", kind="mial"), operation("z", "k"), client="d")
    step_server.ask(SetLimit, "sms", True)
    step_server.complete("k")
    step_server.work("mail", "sms")
    step_server.pass_time(1000)
    step_server.let_pass(4000)
    found = step_server.ask(ReadOverview)
    kinds = {each.kind: each for each in found.kinds}
    assert kinds.keys() == {"mial", "mail", "sms"}
    assert (kinds["mial"].count("ready"), kinds["mial"].workers) == (2, 0)
    assert 3900 <= kinds["mial"].oldest_ready_ms <= 4100
    assert (kinds["mail"].count("running"), kinds["mail"].workers) == (1, 1)
    assert (kinds["sms"].count("ready"), kinds["sms"].paused) == (1, True)
    assert found.operations == {"pending": 1, "completed": 2}
    own = step_server.ask(ReadOverview, "d")
    assert [(each.kind, each.count("ready")) for each in own.kinds] == [("mial", 1)]
    assert own.operations == {"completed": 1}
    assert ask_own(step_server, "d", ReadOverview) == Overview(own.seq + 1, *_fields(own))
    other = ask_own(step_server, "d", ReadOverview, "c")
    assert (other.kinds, other.operations) == ([], {})


def test_the_overview_says_why_commits_fail(step_server):
    """While they do."""
    assert step_server.ask(ReadOverview).commit_error == ""
    step_server.faults.fail()
    step_server.submit(job("a"))
    assert "disk is full" in step_server.ask(ReadOverview).commit_error
    step_server.faults.clear()
    step_server.submit(job("b"))
    assert step_server.ask(ReadOverview).commit_error == ""


def _fields(overview):
    return overview.kinds, overview.operations


def test_own_jobs_only(step_server):
    """A key that is limited to its name sees the jobs of that name only."""
    step_server.submit(job("a", kind="mail"))
    step_server.submit(job("b", kind="mail"), client="d")
    assert [one.state for one in ask_own(step_server, "d", ReadJobs, ["a", "b"]).jobs] == [
        "unknown",
        "scheduled",
    ]
    page = ask_own(step_server, "d", ListJobs, JobFilter())
    assert [one.job_id for one in page.jobs] == ["b"]
    assert ask_own(step_server, "d", CountJobs).counts == [("mail", "scheduled", 1)]


def test_large_values_are_left_out(tmp_path):
    """A page has bounded payloads; a job asked for alone has all of its own."""
    server = StepServer(tmp_path / "a.db", payload_bytes=100_000)
    server.hello()
    payload = "x" * 90_000
    server.submit(job("a", payload=payload), job("b", payload=payload))
    first, second = server.ask(ListJobs, JobFilter()).jobs
    assert len(first.payload) > 90_000
    assert first.left_out == 0
    assert second.left_out > 90_000
    assert server.job("b").left_out == 0
    server.store.close()


def test_a_large_answer(tmp_path):
    """Too many statuses for an answer are a failure that says what to do."""
    server = StepServer(tmp_path / "a.db", message_bytes=2000)
    server.hello()
    server.submit(*[job(f"job-{n}", tags=("x" * 100,)) for n in range(40)])
    failure = server.ask(ReadJobs, [f"job-{n}" for n in range(40)])
    assert isinstance(failure, Failure)
    assert (failure.code, failure.message) == (
        "too-large",
        "the answer has more than 2000 bytes; ask for fewer ids at a time",
    )
    server.store.close()


def told(replies):
    """Return job -> state of the ends among replies."""
    return {one.job_id: one.state for reply in replies if isinstance(reply, JobEnds)
            for one in reply.jobs}  # fmt: skip


@pytest.fixture
def server(step_server):
    """It watches the jobs a, b and c, which are due, and "gone", which is unknown."""
    step_server.submit(*[job(name, timeout_ms=0, payload="x") for name in "abc"])
    step_server.pass_time(2)
    states = step_server.ask(WatchJobs, ["a", "b", "c", "gone"])
    assert isinstance(states, JobStates)
    assert [one.state for one in states.jobs] == ["ready"] * 3 + ["unknown"]
    return step_server


def test_ends(server):
    """Done, dead and cancelled; with the result, without the payload; once."""
    first, second, third = server.work(attempts=1)
    server.post_finish(first, result=encode("r"))
    replies, _ = server.step()
    [ends] = [reply for reply in replies if isinstance(reply, JobEnds)]
    [status] = ends.jobs
    assert (status.job_id, status.state, unpack(status.result)) == ("a", "done", "r")
    assert unpack(status.payload) is None
    server.post_finish(second, how=How.FAILED)
    assert told(server.step()[0]) == {"b": "dead"}
    server.post_finish(third, how=How.FAILED)
    assert told(server.step()[0]) == {"c": "dead"}
    assert server.state.jobs.watches.count == 0


def test_a_known_end(server):
    """The answer has the state of a job that has ended; then there is no push."""
    [leased, *_] = server.work()
    server.post_finish(leased)
    server.step()
    count = server.state.jobs.watches.count
    assert server.ask(WatchJobs, ["a"]).jobs[0].state == "done"
    assert server.state.jobs.watches.count == count


@pytest.mark.parametrize("how", ["done", "dead", "unknown"])
def test_what_cannot_end_is_not_watched(server, how):
    """Nothing would ever end the watch."""
    server.ask(WatchJobs, ["a", "b", "c"], True)
    [leased, *_] = server.work(attempts=1)
    server.post_finish(leased, how=How.DONE if how == "done" else How.FAILED)
    server.step()
    name = leased.op_id if how != "unknown" else "nobody knows"
    before = server.state.jobs.watches.count
    assert server.ask(WatchJobs, [name]).jobs[0].state == how
    assert server.state.jobs.watches.count == before


def test_stop(server):
    """Nothing is told any more."""
    server.ask(WatchJobs, ["a"], True)
    [leased, *_] = server.work()
    server.post_finish(leased)
    assert told(server.step()[0]) == {}


def test_the_end_of_anothers_job(server):
    """A key that sees its client's jobs alone learns nothing of the end, nor of the result."""
    command = ClientRequest(b"d", "d", WatchJobs(90, ["a"]), 1, own_only=True)
    server.store_loop.mailbox.send(command)
    [states], _ = server.step()
    assert [one.state for one in states.jobs] == ["unknown"]
    [leased, *_] = server.work()
    server.post_finish(leased, result=encode("secret"))
    replies, _ = server.step()
    assert len([reply for reply in replies if isinstance(reply, JobEnds)]) == 1  # to the owner


def test_a_connection_that_has_gone(server):
    """It is forgotten with what it watches."""
    server.bye()
    assert server.state.jobs.watches.count == 0
