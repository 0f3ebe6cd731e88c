"""What a server keeps of a job, and the options of submissions."""

import pytest

from purgatory.service.job_messages import JOB_STATES
from purgatory.service.protocol import SubmissionOptions, Submit
from purgatory.service.server.records.job_record import (
    CANCELLED,
    DONE,
    SCHEDULED,
    STATE_COUNT,
    JobRecord,
)
from purgatory.service.store.rows import Options
from tests.testing.step_server import StepServer, job, operation


def test_states():
    """They are those of the protocol, in its order."""
    assert len(JOB_STATES) == STATE_COUNT
    names = [JOB_STATES[state] for state in (SCHEDULED, DONE, CANCELLED)]
    assert names == ["scheduled", "done", "cancelled"]


def test_which_are_alive():
    """Those that are to run, or run."""
    record = JobRecord(1, "a", "c", "mail", 5)
    alive = []
    for record.state in range(STATE_COUNT):
        if record.is_alive:
            alive.append(JOB_STATES[record.state])
    assert alive == ["scheduled", "ready", "running", "retrying"]


def test_defaults():
    """A job without options has no tags, and the middle priority."""
    plain = JobRecord(1, "a", "c", "mail", 5)
    assert (plain.tags, plain.priority, plain.is_alive) == ((), 0, True)
    tagged = JobRecord(1, "a", "c", "mail", 5, Options(0, ("x",), 3))
    assert (tagged.tags, tagged.priority) == (("x",), 3)


def test_options_are_kept_over_restarts(step_server):
    """Of scheduled jobs, of due ones, and of operations."""
    step_server.submit(
        job("a", tags=("x", "y", "x"), priority=-3, start_within_ms=500),
        job("b", timeout_ms=10, unique_ms=7, tags=("z",)),
        job("plain"),
    )
    waits = operation("w")
    waits.options = SubmissionOptions(9)
    step_server.submit(waits)
    step_server.pass_time(20)
    for _ in range(2):
        known = step_server.state.known
        assert known["a"].job.options == Options(86_400_000, ("x", "y"), -3, 500)
        assert known["b"].job.options == Options(7, ("z",))
        assert known["plain"].job.options is None
        assert known["w"].options == Options(9)
        assert known["w"].job is None
        step_server.crash()


def test_due_moment(step_server):
    """`due_ms` counts instead of the timeout; the past is due at once."""
    now_ms = step_server.time.ms
    step_server.submit(
        job("a", due_ms=now_ms + 70_000), job("past", due_ms=now_ms - 5, timeout_ms=9999)
    )
    assert step_server.query("a").deadline_ms == now_ms + 70_000
    step_server.pass_time(2)
    [leased] = step_server.work()
    assert leased.op_id == "past"
    step_server.crash()
    assert step_server.query("a").deadline_ms == now_ms + 70_000


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"priority": 11}, "malformed", "priority is 11; expected -10 to 10"),
        ({"priority": -11}, "malformed", "priority is -11"),
        ({"tags": tuple(map(str, range(11)))}, "too-many-items", "11 tags; expected at most 10"),
        ({"tags": ("x" * 1001,)}, "too-large", "more than 1000 bytes"),
        ({"tags": ("",)}, "malformed", "is empty"),
        ({"start_within_ms": -1}, "malformed", "start_within is -0.001 s"),
        ({"due_ms": 1 << 60}, "too-long", "delay is"),
    ],
)
def test_bad_options(step_server, options, code, words):
    """Each is refused with the value and what was expected; the others of the message are done."""
    reply = step_server.submit(job("bad", **options), job("good"))
    [refusal] = reply.refused
    assert (refusal.index, refusal.code) == (0, code)
    assert words in refusal.message
    assert "good" in step_server.state.known


@pytest.mark.parametrize("options", [{"tags": ("x",)}, {"priority": 1}, {"start_within_ms": 1}])
def test_options_of_jobs(step_server, options):
    """Only a job may have them."""
    waits = operation("w")
    waits.options = SubmissionOptions(**options)
    [refusal] = step_server.submit(waits).refused
    assert "for jobs" in refusal.message


def test_a_submit_that_is_sent_again(step_server):
    """Its answer names what was known at first: what it has submitted itself is new, still."""
    step_server.submit(job("old", unique_ms=5000))

    def known():
        message = [job("old", unique_ms=5000), job("new", unique_ms=5000)]
        answer = step_server.ask(Submit, message, session="s", seq=50)
        return [one.index for one in answer.known]

    assert known() == known() == [0]
    step_server.crash()
    assert known() == [0]
    answer = step_server.ask(Submit, [job("new", unique_ms=5000)], session="s", seq=51)
    assert [one.index for one in answer.known] == [0]
    # Another session, or none, has asked for the first time.
    answer = step_server.ask(Submit, [job("new", unique_ms=5000)], session="t", seq=50)
    assert [one.index for one in answer.known] == [0]


def test_memory_is_given_back(tmp_path):
    """What a job takes is charged from its submission until it is forgotten, and no longer."""
    server = StepServer(tmp_path / "a.db")
    server.hello()
    before = server.state.jobs.bytes
    server.faults.fail()
    server.submit(job("a", tags=("x",)))
    assert server.state.jobs.bytes == before
    server.faults.clear()
    server.submit(job("a", tags=("x",)))
    charged = server.state.jobs.bytes
    assert charged > before
    server.crash()
    assert server.state.jobs.bytes == charged
    server.cancel("a")
    server.state.retention.delete([record for _, record in server.state.retention.acknowledged])
    assert server.state.jobs.bytes == before
    server.store.close()
