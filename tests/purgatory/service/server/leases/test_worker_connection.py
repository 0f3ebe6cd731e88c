"""How many jobs of each kind a worker takes, and when a connection counts as a worker."""

from purgatory.service.server.jobs.kind_figures import kind_figures
from purgatory.service.server.leases.job_leases import BUSY, NO_WORKER
from tests.testing.step_server import job, step_server

__all__ = ["step_server"]


def test_room_for_a_kind(step_server):
    """Of a kind with a room of its own it holds so many; the others have the rest."""
    step_server.submit(*[job(f"{kind}{n}", kind=kind) for kind in "ab" for n in range(6)])
    step_server.pass_time(1001)
    found = step_server.work("a", "b", room=6, kind_rooms={"a": 2})
    assert sorted(one.op_id for one in found) == ["a0", "a1", "b0", "b1", "b2", "b3"]
    assert step_server.store_loop.max_sleep() > 0
    step_server.finish(found[-1])
    assert [one.kind for one in step_server.leased] == ["b"]
    step_server.finish(*[one for one in found if one.kind == "a"])
    assert sorted(one.op_id for one in step_server.leased) == ["a2", "b5"]
    again = step_server.work("a", "b", room=9, kind_rooms={"a": 3})
    assert [one.op_id for one in again] == ["a3", "a4"]


def test_a_job_for_each_that_ends(step_server):
    """Of a kind that is full it gets one job when one has ended, not more."""
    step_server.submit(*[job(f"a{n}", kind="a") for n in range(6)])
    step_server.pass_time(1001)
    found = step_server.work("a", room=6, kind_rooms={"a": 2})
    for n in range(2):
        step_server.finish(found[n])
        assert [one.op_id for one in step_server.leased] == [f"a{n + 2}"]


def test_no_room_for_all_that_waits(step_server):
    """The server sleeps: nothing could be given out."""
    step_server.submit(*[job(f"a{n}", kind="a") for n in range(3)])
    step_server.pass_time(1001)
    assert len(step_server.work("a", room=6, kind_rooms={"a": 2})) == 2
    assert step_server.store_loop.max_sleep() > 0
    assert step_server.state.leases.next_wake_ms(step_server.time.ms) > step_server.time.ms


def test_a_connection_that_no_program_uses(step_server):
    """A gateway's, without a request that waits and without a lease: it is no worker."""

    def shown():
        figures = kind_figures(step_server.state, step_server.time.ms)
        return step_server.job("c").why, [each.workers for each in figures]

    step_server.submit(*[job(op_id) for op_id in "abc"])
    step_server.pass_time(1001)
    [leased] = step_server.work(room=1, detached=True)
    assert shown() == (BUSY, [1])
    step_server.finish(leased)
    assert shown() == (NO_WORKER, [0])
    [leased] = step_server.work(room=1, detached=True, lease_ms=500, attempts=1)
    assert shown() == (BUSY, [1])
    step_server.pass_time(600)
    assert shown() == (NO_WORKER, [0])
    step_server.work(room=0)
    assert shown() == (NO_WORKER, [0])
