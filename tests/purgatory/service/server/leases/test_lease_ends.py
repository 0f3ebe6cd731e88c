"""Attempts that fail, and jobs that are given up."""

from purgatory.service.encoding import unpack
from purgatory.service.protocol import (
    EndDead,
    How,
    ReadDead,
)
from purgatory.service.server.commands import ClientDisconnected
from tests.testing.step_server import job, step_server

__all__ = ["step_server"]


def due(server, *op_ids, **others):
    """Submit jobs and let them become due; returns what is leased then."""
    server.submit(*[job(op_id, **others) for op_id in op_ids])
    server.pass_time(1001)
    return server.leased


class TestFailures:
    def test_retries_and_the_end(self, step_server):
        """After the delay, until the last attempt; then it is dead, on disk, with the error."""
        step_server.work(attempts=3)
        found = due(step_server, "a", payload=7)
        for attempt in (1, 2):
            [leased] = found
            assert leased.attempt == attempt
            step_server.finish(leased, how=How.FAILED, delay_ms=300, error="ValueError: no")
            assert step_server.leased == []
            step_server.pass_time(299)
            assert step_server.leased == []
            step_server.pass_time(1)
            found = step_server.leased
        step_server.finish(*found, how=How.FAILED, delay_ms=300, error="ValueError: the last")
        for _ in range(2):
            assert step_server.pass_time(10**6) == []
            assert step_server.leased == []
            [dead] = step_server.ask(ReadDead).jobs
            assert (dead.op_id, dead.attempts, dead.error) == ("a", 3, "ValueError: the last")
            assert unpack(dead.payload) == 7
            assert step_server.ask(ReadDead, dead.number).jobs == []
            step_server.crash()
            step_server.work()
        assert step_server.ask(EndDead, [dead.number, 99]).done == [True, False]
        [leased] = step_server.leased
        assert leased.attempt == 1
        assert step_server.ask(ReadDead).jobs == []
        step_server.finish(leased)

    def test_dropping(self, step_server):
        """A dead job that is dropped is gone for good; another client's is not touched."""
        step_server.work(attempts=1)
        [leased] = due(step_server, "a")
        step_server.finish(leased, how=How.FAILED, error="no")
        assert step_server.ask(ReadDead, client="other").jobs == []
        assert step_server.ask(EndDead, [leased.number], True, client="other").done == [False]
        assert step_server.ask(EndDead, [leased.number], True).done == [True]
        step_server.crash()
        assert step_server.ask(ReadDead).jobs == []
        assert step_server.work() == []
        assert step_server.state.unacknowledged == 0

    def test_the_last_attempt_is_lost(self, step_server):
        """A job that kills its workers is given up, too."""
        step_server.work(attempts=2)
        due(step_server, "a")
        for route in (b"w", b"x"):
            step_server.send(ClientDisconnected("c", route))
            step_server.work(route=b"x", attempts=2)
        [dead] = step_server.ask(ReadDead).jobs
        assert (dead.attempts, dead.error.split(":")[0]) == (2, "WorkerGone")
