"""HeldJobs and Pace: what a worker has, and how much of it."""

import pytest

from purgatory.service.protocol import Lease, LeasedJob
from purgatory.service.worker import held_jobs
from purgatory.service.worker.held_jobs import HeldJobs, Pace


def leased(number, token=1, attempt=1, kind=""):
    return LeasedJob(number, token, f"job {number}", kind, attempt, 0, 0)


def test_a_job_is_begun_once():
    """Not after it was given back, nor removed as another's."""
    jobs = HeldJobs(60.0, float)
    one, two, three = (jobs.add(leased(n)) for n in range(3))
    assert jobs.begin(one)
    assert not jobs.begin(one)
    assert jobs.take_waiting(1) == [three]
    assert not jobs.begin(three)
    jobs.remove(two)
    assert not jobs.begin(two)
    assert (len(jobs), jobs.running) == (1, 1)
    jobs.end(one)
    assert jobs.running == 0
    assert jobs.unfinished() == []


def test_a_job_that_is_leased_again():
    """It is not run twice beside itself, and goes on under its new lease."""
    jobs = HeldJobs(60.0, float)
    one = jobs.add(leased(1, token=5))
    assert jobs.add(leased(1, token=9)) is None
    assert one.lease.token == 9


def test_late_jobs():
    """All jobs not begun of the kinds that are late, once one has waited for so long."""
    now = [10.0]
    jobs = HeldJobs(60.0, lambda: now[0])
    begun, one, _ = jobs.add(leased(1)), jobs.add(leased(2)), jobs.add(leased(3, kind="other"))
    now[0] = 11.0
    two = jobs.add(leased(4))
    assert jobs.begin(begun)
    assert jobs.take_late(9.9, lambda kind: kind == "") == []
    assert jobs.take_late(10.0, lambda kind: kind == "") == [one, two]
    assert jobs.take_late(99.0, lambda kind: kind == "") == []
    assert len(jobs) == 2


def test_the_server_is_told_of_each_beginning():
    """Once, and again under a new lease, of which the server knows nothing."""
    now = [10.0]
    jobs = HeldJobs(60.0, lambda: now[0])
    one, two = jobs.add(leased(1, token=5)), jobs.add(leased(2, token=6))
    assert jobs.take_untold() == []
    assert jobs.begin(one)
    assert [lease.token for lease in jobs.take_untold()] == [5]
    assert jobs.take_untold() == []
    now[0] = 30.0
    assert jobs.add(leased(1, token=9)) is None
    assert (one.kept_at, one.asked_at, two.kept_at) == (30.0, 30.0, 10.0)
    assert [lease.token for lease in jobs.take_untold()] == [9]
    assert jobs.find(one.lease) is one
    assert jobs.find(Lease(1, 5)) is None


def test_a_job_that_is_leased_again_before_it_begins():
    """Its handler, and the delay after it, are those of the attempt as which it began."""
    jobs = HeldJobs(60.0, float)
    one = jobs.add(leased(1, token=5))
    jobs.add(leased(1, token=9, attempt=2))
    assert jobs.begin(one)
    jobs.add(leased(1, token=11, attempt=3))
    assert (one.lease.token, one.leased.attempt) == (11, 2)


def test_a_job_that_waited_too_long():
    """Its lease has ended before this process knew: it is not begun."""
    now = [0.0]
    jobs = HeldJobs(60.0, lambda: now[0])
    one, two = jobs.add(leased(1)), jobs.add(leased(2))
    now[0] = 59.0
    assert jobs.begin(one)
    assert jobs.to_keep(20.0) == [one, two]
    assert jobs.to_keep(20.0) == []
    now[0] = 60.0
    assert not jobs.begin(two)
    assert len(jobs) == 1


def test_a_new_job():
    """It has neither begun nor ended, and can be cancelled."""
    held = HeldJobs(60.0, float).add(leased(1))
    assert (held.is_refused, held.is_ending, held.is_lost, held.is_told) == (False,) * 4
    assert not held.is_cancelled
    held.cancel()
    assert held.is_cancelled
    assert held.cancelled.is_set()


def test_the_last_moment_of_a_lease():
    """At its end a job does not begin."""
    now = [0.0]
    jobs = HeldJobs(60.0, lambda: now[0])
    one, two = jobs.add(leased(1)), jobs.add(leased(2))
    now[0] = jobs._lease_s - 0.001
    assert jobs.begin(one)
    now[0] = jobs._lease_s
    assert not jobs.begin(two)


def test_a_clock_that_is_slow():
    """A job is not begun shortly before its lease ends: at the server it may have ended."""
    now = [0.0]
    jobs = HeldJobs(60.0, lambda: now[0])
    one, two = jobs.add(leased(1)), jobs.add(leased(2))
    now[0] = 59.9
    assert jobs.begin(one)
    now[0] = 60.0 * (1 - 0.0005)  # after 60 s by a clock that is right
    assert not jobs.begin(two)


def test_a_lease_that_was_kept():
    """It lasts from when the server was asked; the answer for an older lease says nothing."""
    now = [0.0]
    jobs = HeldJobs(60.0, lambda: now[0])
    one, two = jobs.add(leased(1)), jobs.add(leased(2))
    jobs.kept(one, 1, 30.0)
    jobs.kept(two, 0, 30.0)
    now[0] = 89.0
    assert jobs.begin(one)
    assert not jobs.begin(two)


def test_pace():
    """Quick jobs come in advance, slow ones do not; a handler that hangs counts as slow."""
    now = [0.0]
    speed = Pace(8, lambda: now[0])
    for _ in range(200):
        speed.add(0.0001)
    assert not speed.look() or speed.room == 256
    now[0] = 1.0
    speed.look()
    assert speed.room == 8 * held_jobs.MAX_AHEAD
    now[0] = 2.0
    assert speed.look(running_seconds=5.0)
    assert speed.room == 8
    huge = Pace(1000, lambda: now[0])
    for _ in range(200):
        huge.add(0.0)
    huge.look()
    assert huge.room == held_jobs.MAX_ROOM


@pytest.mark.parametrize(
    ("before", "ahead", "after"),
    [(8, 2, 16), (10, 2, 10), (32, 2, 16), (31, 2, 31), (8, 1, 8), (12, 1, 8), (12, 2, 12)],
)
def test_small_changes_of_pace_change_nothing(before, ahead, after):
    """The room changes to the half or the double at least, or to one job a handler."""
    speed = Pace(8, lambda: 0.0)
    speed.room = before
    speed._average = held_jobs.LOOK_AHEAD_S / (ahead + 0.1)
    assert speed.look() is (after != before)
    assert speed.room == after


def test_to_take_one_that_waits():
    """A job that has begun, or was taken, is not taken."""
    jobs = HeldJobs(60.0, lambda: 0.0)
    waits, begun = jobs.add(leased(1)), jobs.add(leased(2))
    assert jobs.begin(begun)
    assert [jobs.take(held) for held in (waits, waits, begun)] == [True, False, False]
    assert len(jobs) == 1


@pytest.mark.parametrize("answer", [True, False])
def test_to_extend_one(answer):
    """The worker is asked; before its handler has begun there is no one to ask."""
    held = HeldJobs(60.0, lambda: 0.0).add(leased(1))
    assert held.extend(5.0) is False
    asked = []
    held.extender = lambda *news: asked.append(news) or answer
    assert held.extend(5.0) is answer
    assert asked == [(held, 5.0)]


def test_the_pace_is_looked_at_now_and_then():
    """At `next_look`, and not before."""
    now = [0.0]
    speed = Pace(8, lambda: now[0])
    assert not speed.look()
    assert speed.next_look > 0.0
    speed._average = 0.0
    for now[0], changes in ((speed.next_look - 0.001, False), (speed.next_look, True)):
        assert speed.look() is changes


def test_a_handler_that_was_given_up():
    """It is lost until it returns; its job has ended by then."""
    jobs = HeldJobs(60.0, float)
    one, two = jobs.add(leased(1)), jobs.add(leased(2))
    assert jobs.begin(one)
    assert jobs.begin(two)
    assert jobs.end(one, lost=True)
    assert not jobs.end(one, lost=True)
    assert (jobs.lost, jobs.running, one.is_lost, one.is_ending) == ([one], 1, True, True)
    assert not jobs.end(one)
    assert (jobs.lost, jobs.unfinished(), len(jobs)) == ([], [two], 2)
    assert jobs.end(two)
    assert not jobs.end(two)
    assert (jobs.lost, two.is_lost, two.is_ending) == ([], False, True)


def test_the_next_attempt_of_a_job_that_ended():
    """It takes the place of the one before, with the lease's times, if it came meanwhile."""
    now = [10.0]
    jobs = HeldJobs(60.0, lambda: now[0])
    one, other = jobs.add(leased(1)), jobs.add(leased(2))
    assert jobs.begin(one)
    assert jobs.renew(one) is None
    now[0] = 30.0
    jobs.add(leased(1, token=9, attempt=2))
    now[0] = 40.0
    assert jobs.end(one)
    renewed = jobs.renew(one)
    assert (renewed.leased.attempt, renewed.token, renewed.kept_at) == (2, 9, 30.0)
    assert jobs.renew(one) is None
    jobs.remove(one)  # has no effect: the job is the next attempt's
    assert len(jobs) == 2
    assert jobs.begin(renewed)
    assert jobs.take(other)


def test_a_lease_that_lapsed_is_noted():
    """Only where that is the reason why the job does not begin."""
    now = [0.0]
    jobs = HeldJobs(60.0, lambda: now[0])
    taken, late = jobs.add(leased(1)), jobs.add(leased(2))
    assert jobs.take(taken)
    now[0] = 100.0
    for held in (taken, late):
        assert not jobs.begin(held)
    assert (taken.has_lapsed, late.has_lapsed, len(jobs)) == (False, True, 0)
