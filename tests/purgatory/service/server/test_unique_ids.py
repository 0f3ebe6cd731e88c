"""Ids that callers give: unique while they live, and for their period after the end, exactly."""

import pytest

from purgatory.errors import StoreError
from purgatory.service.job_messages import ReadJobs, RetryJobs
from purgatory.service.protocol import (
    DEFAULT,
    MADE_UP,
    How,
    Known,
    SubmissionOptions,
    Submit,
)
from purgatory.service.server.records import retention
from purgatory.service.server.records.remembered_ids import REMEMBER_MS, RememberedIds
from purgatory.service.server.records.retention import READABLE_MS
from purgatory.service.server.transactions import remembering
from tests.purgatory.service.server.transactions.test_remembering import KEPT_MS
from tests.testing.step_server import job, operation, result

HOUR_MS = 3_600_000


def unique(submission, unique_ms=DEFAULT):
    """Give a submission a period."""
    submission.options = SubmissionOptions(unique_ms)
    return submission


def run(server, op_id, unique_ms=DEFAULT, kind="", payload=None):
    """Submit a job that is due at once, and do it."""
    reply = server.submit(unique(job(op_id, timeout_ms=0, kind=kind, payload=payload), unique_ms))
    assert (reply.refused, reply.known) == ([], [])
    server.pass_time(1)
    [leased] = server.leased or server.work(kind)
    assert server.finish(leased) == [True]


def end(server, op_id, unique_ms=DEFAULT):
    """Submit an operation, complete it, and acknowledge its outcome."""
    reply = server.submit(unique(operation(op_id), unique_ms))
    assert (reply.refused, reply.known) == ([], [])
    _, outcomes = server.complete_and_push(f"{op_id}'s key", 5)
    server.acknowledge(*[outcome.number for outcome in outcomes])


def is_known(server, op_id, make=job):
    """Whether a submission of an id, which changes nothing else, is known."""
    server.post(Submit, [unique(make(op_id, timeout_ms=HOUR_MS), 0)])
    replies, _ = server.step()
    [reply] = replies
    assert reply.refused == []
    if reply.known:
        return True
    server.cancel(op_id)
    server.acknowledge(*server.state.clients.record("c").unacknowledged)
    return False


def restart(server):
    """Crash, and acknowledge outcomes again: the server has forgotten acknowledgements."""
    server.crash()
    server.hello()
    server.acknowledge(*server.state.clients.record("c").unacknowledged)


def many_others(server, count=10_300):
    """Have so many others end that each outcome from before is deleted."""
    for start in range(0, count, 500):
        names = [f"other-{start}-{number}" for number in range(500)]
        server.submit(*[operation(name, "others") for name in names])
        _, outcomes = server.complete_and_push("others")
        server.acknowledge(*[outcome.number for outcome in outcomes])
    server.pass_time(100)
    server.pass_time(100)


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize(("ender", "make"), [(run, job), (end, operation)])
def test_for_its_period_and_no_longer(step_server, ender, make, crash):
    """Whether its first rows are there or not, and over restarts."""
    server = step_server
    for unique_ms in (1000, 2 * HOUR_MS):
        ender(server, "a", unique_ms)
        over_ms = server.time.ms + unique_ms
        server.pass_time(over_ms - server.time.ms - 1)
        if crash:
            restart(server)
        assert is_known(server, "a", make)
        server.pass_time(1)
        assert not is_known(server, "a", make)
        restart(server)
        assert not is_known(server, "a", make)


def test_the_default_is_the_servers(step_server):
    """A day, if the configuration says nothing else."""
    server = step_server
    run(server, "a")
    end_ms = server.time.ms
    server.pass_time(KEPT_MS)
    assert server.state.known == {}
    server.pass_time(end_ms + REMEMBER_MS - 1 - server.time.ms)
    assert is_known(server, "a")
    server.pass_time(1)
    assert not is_known(server, "a")


def test_after_ten_thousand_others(step_server):
    """An id with a period is known; one that a client made up is not."""
    server = step_server
    server.state.remembered.most = 10**6
    run(server, "invoice-42")
    run(server, "made up", MADE_UP)
    many_others(server)
    assert "invoice-42" not in server.state.known
    assert is_known(server, "invoice-42")
    assert server.submit(job("made up")).known == []


def test_what_is_answered(step_server):
    """The state, and of an operation its outcome once more; another client is refused."""
    server = step_server
    run(server, "a")
    end(server, "b")
    server.pass_time(KEPT_MS)
    server.post(Submit, [unique(job("a")), unique(operation("b")), unique(operation("new"))])
    [reply], outcomes = server.step()
    assert reply.known == [Known(0, "completed"), Known(1, "completed")]
    [outcome] = outcomes
    assert (outcome.op_id, outcome.outcome, result(outcome)) == ("b", "completed", 5)
    server.acknowledge(outcome.number)
    reply = server.submit(unique(job("a")), unique(operation("b")), client="another")
    assert [refusal.code for refusal in reply.refused] == ["taken", "taken"]
    # One without a period is not looked up.
    assert server.submit(operation("b", "other key"), client="another").refused == []


@pytest.mark.parametrize("fatal", [False, True])
def test_a_full_disk_that_cannot_be_read(step_server, monkeypatch, fatal):
    """The submit is refused as a whole, and only damage ends the server."""
    server = step_server
    run(server, "a")
    server.pass_time(KEPT_MS)
    read, failures = server.store.remembered.read, []

    def fail_after_first(places):
        if failures:
            raise failures[0]
        failures.append(StoreError("cannot read", fatal=fatal))
        return read(places)

    monkeypatch.setattr(server.store.remembered, "read", fail_after_first)
    server.faults.fail()
    server.post(Submit, [unique(job("a")), unique(operation("new"))])
    replies, _ = server.step()
    assert server.store_loop.failure is (failures[0] if fatal else None)
    assert [reply.code for reply in replies] == ([] if fatal else ["store"])


@pytest.mark.parametrize("state", ["pending", "ended", "remembered", "remembered, restarted"])
def test_no_job_has_the_id_of_an_operation(step_server, state):
    """Nor an operation that of a job; the client would wait for an end that never comes."""
    server = step_server
    if state == "pending":
        server.submit(unique(job("a")), unique(operation("b")))
    else:
        run(server, "a")
        end(server, "b")
    if state.startswith("remembered"):
        server.pass_time(KEPT_MS)
    if state.endswith("restarted"):
        restart(server)
    swapped = server.submit(unique(operation("a")), unique(job("b")))
    assert [(one.code, one.message) for one in swapped.refused] == [
        ("taken", "id 'a' belongs to a job"),
        ("taken", "id 'b' belongs to an operation that is no job"),
    ]
    assert swapped.known == []
    assert len(server.submit(unique(job("a")), unique(operation("b"))).known) == 2


def test_the_status_is_remembered(step_server):
    """Of a job as ReadJobs has answered before, of an operation as Query has."""
    server = step_server
    run(server, "a", kind="mail", payload={"to": 7})
    end(server, "b")

    def read():
        jobs = server.ask(ReadJobs, ["a", "b", "c"]).jobs
        return jobs, server.query("b"), server.query("a").state

    before = read()
    assert [one.state for one in before[0]] == ["done", "unknown", "unknown"]
    assert before[0][0].kind == "mail"
    server.pass_time(KEPT_MS)
    assert server.state.known == {}
    assert read() == before
    server.crash()
    assert read() == before
    server.pass_time(REMEMBER_MS)
    assert read()[0][0].state == "unknown"
    assert read()[1].state == "unknown"


def test_a_dead_job(step_server):
    """Its id is not free while it is dead, however long; dropped, it is."""
    server = step_server
    server.submit(unique(job("a", timeout_ms=0), 1000))
    server.pass_time(1)
    [leased] = server.work(attempts=1)
    server.finish(leased, how=How.FAILED)
    server.pass_time(10 * HOUR_MS)
    assert is_known(server, "a")


def test_an_unacknowledged_outcome(step_server):
    """Its id is not free before its client has acknowledged it."""
    server = step_server
    server.submit(unique(operation("a"), 0))
    _, [outcome] = server.complete_and_push("a's key")
    server.pass_time(HOUR_MS)
    assert is_known(server, "a", operation)
    server.acknowledge(outcome.number)
    assert not is_known(server, "a", operation)


@pytest.mark.parametrize("make", [job, operation])
def test_the_bound(step_server, make):
    """A place is reserved at the submission; without one, submissions with a period are refused."""
    server = step_server
    server.state.remembered.most = 2
    (run if make is job else end)(server, "a", HOUR_MS)
    assert server.submit(unique(make("b"), HOUR_MS)).refused == []
    reply = server.submit(
        unique(make("c"), HOUR_MS), unique(make("d"), 0), unique(make("e"), MADE_UP), make("f")
    )
    assert [(one.index, one.code) for one in reply.refused] == [(0, "too-many-remembered")]
    assert "max_remembered" in reply.refused[0].message
    server.pass_time(KEPT_MS)
    server.crash()
    server.hello()
    server.state.remembered.most = 2
    assert server.state.remembered.total == 2
    assert is_known(server, "a", make)
    assert server.submit(unique(make("c"), 1)).refused != []
    server.pass_time(HOUR_MS)
    server.pass_time(20_000)
    assert server.state.remembered.total <= 1
    assert server.submit(unique(make("c"), 1)).refused == []


@pytest.mark.parametrize("make", [job, operation])
def test_a_place_is_free_when_the_period_is_over(step_server, make):
    """Though the server keeps the outcome for longer."""
    server = step_server
    server.state.remembered.most = 1
    (run if make is job else end)(server, "a", 5000)
    assert server.submit(unique(make("b"), 1)).refused != []
    server.pass_time(5000)
    assert server.submit(unique(make("b"), HOUR_MS)).refused == []
    assert server.submit(unique(make("c"), 1)).refused != []
    server.pass_time(KEPT_MS)
    assert server.state.remembered.total == 1


def test_a_failed_commit_gives_its_place_back(step_server):
    """And what had the id before is as it was."""
    server = step_server
    run(server, "a", 1000)
    server.pass_time(1000)
    before = server.state.known["a"]
    total = server.state.remembered.total
    server.faults.fail()
    server.submit(unique(job("a"), HOUR_MS), unique(job("b"), HOUR_MS))
    server.faults.clear()
    assert server.state.known == {"a": before}
    assert server.state.remembered.total == total
    assert not is_known(server, "a")


def test_an_id_in_use_again(step_server):
    """The rows of what had it before go later, and take nothing of the new one's along."""
    server = step_server
    run(server, "a", 0)
    assert server.submit(unique(job("a", timeout_ms=10 * HOUR_MS))).known == []
    server.pass_time(KEPT_MS)
    server.crash()
    [status] = server.ask(ReadJobs, ["a"]).jobs
    assert status.state == "scheduled"
    assert server.state.jobs.counts == {"": [1, 0, 0, 0, 0, 0, 0]}
    assert len(list(server.store.submissions())) == 1
    assert server.state.remembered.total == 1


@pytest.mark.parametrize(("unique_ms", "code"), [(-3, "malformed"), (10**12, "too-long")])
def test_a_bad_period(step_server, unique_ms, code):
    """Is refused."""
    [refusal] = step_server.submit(unique(job("a"), unique_ms)).refused
    assert refusal.code == code


def test_no_look_without_a_period(step_server, monkeypatch):
    """Submissions of ids that clients made up cost nothing more."""
    looks = []
    monkeypatch.setattr(RememberedIds, "places", lambda _self, op_id: looks.append(op_id) or [])
    step_server.submit(operation("a"), unique(operation("b"), MADE_UP), unique(operation("c")))
    assert looks == ["c"]


@pytest.mark.parametrize(("most", "value"), [("MOVED", 3), ("MOVED_BYTES", 1500)])
def test_many_move_in_portions(step_server, monkeypatch, most, value):
    """So that no transaction takes long, however many or large outcomes are to be deleted."""
    server = step_server
    monkeypatch.setattr(remembering, "_CHUNK", 1)
    monkeypatch.setattr(remembering, most, value)
    ids = [f"id-{number}" for number in range(8)]
    server.submit(*[unique(operation(op_id, "k", payload="x" * 500)) for op_id in ids])
    _, outcomes = server.complete_and_push("k")
    server.acknowledge(*[outcome.number for outcome in outcomes])
    server.time.ms += KEPT_MS
    counts = []
    for _ in range(3):
        server.step(once=True)
        counts.append(server.state.remembered.count)
        server.time.ms += retention.DELETION_PAUSE_MS
        assert server.state.remembered.reserved == 8 - counts[-1]
    assert counts == [3, 6, 8]
    assert all(is_known(server, op_id, operation) for op_id in ids)
    assert not list(server.store.submissions())


def test_a_result_without_a_period(step_server):
    """The id is free at once, but the result can be read for a while, unless the id is used."""
    server = step_server
    run(server, "a", 0)
    server.pass_time(READABLE_MS - 1)
    assert server.ask(ReadJobs, ["a"]).jobs[0].state == "done"
    server.pass_time(1)
    assert server.ask(ReadJobs, ["a"]).jobs[0].state == "unknown"
    run(server, "b", 0)
    assert server.submit(unique(job("b", timeout_ms=HOUR_MS), 0)).known == []
    assert server.ask(ReadJobs, ["b"]).jobs[0].state == "scheduled"


def submit_in_session(server, *operations, seq, client="c"):
    """Submit in a session, as clients do; returns the reply. The same `seq`: sent again."""
    return server.ask(Submit, list(operations), session="s", seq=seq, client=client)


@pytest.mark.parametrize("crash", [False, True])
def test_a_submit_that_is_sent_again_after_the_period(step_server, crash):
    """It submits nothing a second time, and has the first answer: its job was new."""
    server = step_server
    again = [unique(job("known", timeout_ms=HOUR_MS)), unique(job("a", timeout_ms=0), 0)]
    server.submit(again[0])
    first = submit_in_session(server, *again, seq=1001)
    assert first.known == [Known(0, "pending")]
    server.pass_time(1)
    [leased] = server.work()
    server.finish(leased)
    server.pass_time(1000)
    assert server.state.known["a"].is_over(server.time.ms)
    if crash:
        restart(server)
    assert submit_in_session(server, *again, seq=1001) == first
    server.pass_time(1)
    assert server.job_states("a") == ["done"]
    reply = submit_in_session(server, *again, seq=1002)
    assert reply.known == [Known(0, "pending")]
    assert server.job_states("a") == ["scheduled"]


def test_a_submit_that_is_sent_again_after_a_drop(step_server):
    """It does not submit the job that was dropped; what was refused before is submitted."""
    server = step_server
    server.state.remembered.most = 1
    again = [unique(job("a", timeout_ms=0), HOUR_MS), unique(job("b"), HOUR_MS)]
    assert [one.index for one in submit_in_session(server, *again, seq=1001).refused] == [1]
    server.pass_time(1)
    [leased] = server.work(attempts=1)
    server.finish(leased, how=How.FAILED)
    assert server.ask(RetryJobs, ["a"], True).done == [True]
    server.state.remembered.most = 10
    reply = submit_in_session(server, *again, seq=1001)
    assert (reply.refused, reply.known) == ([], [])
    assert list(server.state.known) == ["b"]


def test_a_submit_that_is_sent_again_and_fails(step_server):
    """If its commit fails, only what was not submitted before is refused."""
    server = step_server
    server.state.remembered.most = 1
    again = [unique(job("a", timeout_ms=0), 1), unique(job("b"), HOUR_MS)]
    submit_in_session(server, *again, seq=1001)
    server.pass_time(1)
    [leased] = server.work()
    server.finish(leased)
    server.pass_time(1000)
    server.state.remembered.most = 10
    server.faults.fail()
    reply = submit_in_session(server, *again, seq=1001)
    server.faults.clear()
    assert [one.index for one in reply.refused] == [1]
    assert reply.known == []


def test_an_id_that_another_client_has_by_then(step_server):
    """A submit that is sent again is not told that the id is taken: it was submitted."""
    server = step_server
    again = unique(job("a", timeout_ms=0), 0)
    submit_in_session(server, again, seq=1001)
    server.pass_time(1)
    [leased] = server.work()
    server.finish(leased)
    server.pass_time(1)
    assert server.submit(unique(job("a")), client="another").refused == []
    reply = submit_in_session(server, again, seq=1001)
    assert (reply.refused, reply.known) == ([], [])
