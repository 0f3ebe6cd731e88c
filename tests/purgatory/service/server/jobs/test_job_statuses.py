"""The statuses of jobs over their lives."""

from purgatory.service.encoding import encode, unpack
from purgatory.service.protocol import How
from tests.testing.step_server import job


def test_a_scheduled_job(step_server):
    """All that was said of it."""
    now_ms = step_server.time.ms
    step_server.submit(
        job("a", "k", "l", kind="mail", payload=[1], timeout_ms=700, tags=("x",), priority=2)
    )
    status = step_server.job("a")
    assert (status.state, status.kind, status.client) == ("scheduled", "mail", "c")
    assert (status.tags, status.unless, status.priority) == (("x",), ("k", "l"), 2)
    assert (status.submitted_ms, status.due_ms) == (now_ms, now_ms + 700)
    assert (status.began_ms, status.ended_ms, status.attempts) == (None, None, 0)
    assert unpack(status.payload) == [1]


def test_a_job_without_unless(step_server):
    """Its own id, which the client gives as its key, is not told as one."""
    step_server.submit(job("a"))
    assert step_server.job("a").unless == ()


def test_a_life(step_server):
    """Ready, running, retrying, ready again, running, done; over restarts."""
    step_server.submit(job("a", timeout_ms=0))
    step_server.pass_time(2)
    assert step_server.job_states("a") == ["ready"]
    [leased] = step_server.work()
    status = step_server.job("a")
    assert (status.state, status.attempts, status.began_ms) == ("running", 1, step_server.time.ms)
    assert status.max_attempts == 3
    assert status.worker == b"w".hex()
    step_server.finish(leased, how=How.FAILED, delay_ms=5000, error="Boom: x")
    for _ in range(2):
        status = step_server.job("a")
        assert (status.state, status.attempts, status.error) == ("retrying", 1, "Boom: x")
        assert status.due_ms == step_server.time.ms + 5000
        step_server.crash()
    step_server.pass_time(5001)
    assert step_server.job_states("a") == ["ready"]
    [leased] = step_server.work()
    step_server.finish(leased)
    for _ in range(2):
        status = step_server.job("a")
        assert (status.state, status.attempts, status.error) == ("done", 2, "")
        assert status.ended_ms == step_server.time.ms
        assert step_server.job_counts() == {("", "done"): 1}
        step_server.crash()


def test_a_result(step_server):
    """What the handler has returned is kept with the job; nil is no result."""
    step_server.submit(job("a", timeout_ms=0), job("b", timeout_ms=0))
    step_server.pass_time(2)
    for leased, value in zip(step_server.work(), ({"x": 1}, None), strict=True):
        step_server.finish(leased, result=encode(value))
    for _ in range(2):
        assert unpack(step_server.job("a").result) == {"x": 1}
        assert unpack(step_server.job("b").result) is None
        step_server.crash()


def test_a_dead_job(step_server):
    """It has the error of its last attempt."""
    step_server.submit(job("a", timeout_ms=0))
    step_server.pass_time(2)
    [leased] = step_server.work(attempts=1)
    step_server.finish(leased, how=How.FAILED, error="Boom: x")
    for _ in range(2):
        status = step_server.job("a")
        assert (status.state, status.attempts, status.error) == ("dead", 1, "Boom: x")
        assert status.ended_ms == step_server.time.ms
        step_server.crash()


def test_cancelled_before_it_is_due(step_server):
    """By request, by a key, or by the failure of a key: it says which key."""
    step_server.submit(job("a"), job("b", "k"), job("c", "l"))
    step_server.cancel("a")
    step_server.complete("k")
    step_server.fail("l", "Lost", "why")
    for _ in range(2):
        assert step_server.job_states("a", "b", "c") == ["cancelled"] * 3
        assert step_server.job("a").error == "cancelled"
        assert step_server.job("b").error == "cancelled by key k"
        assert step_server.job("c").error == "cancelled by key l"
        assert step_server.job("c").ended_ms == step_server.time.ms
        step_server.crash()


def test_never_expired(step_server):
    """Nobody is told that a job has expired, not by a query of an operation either."""
    step_server.submit(job("a", timeout_ms=0))
    step_server.pass_time(2)
    assert step_server.query("a").state == "pending"
    assert step_server.submit(job("a")).known[0].state == "pending"
    assert step_server.state.purgatory.stats().expired == 0
    assert step_server.store_loop.ended["expired"] == 0
    [leased] = step_server.work()
    step_server.finish(leased)
    assert step_server.query("a").state == "completed"
