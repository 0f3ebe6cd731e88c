"""The model of leases: attempts, ends, and what a worker may be given."""

import pytest

from purgatory.service.job_messages import Begin
from purgatory.service.protocol import Finish, How, Keep, Lease, LeasedJob, LeaseEnd, Work
from tests.simulation.model.model_leases import ModelLeases
from tests.simulation.model.model_operation import ModelOperation
from tests.simulation.model.undo import Undo

ROUTE = b"r"


@pytest.fixture
def leases():
    """One job, with number 5, and a worker with room for it, which gives it two attempts."""
    undo = Undo()
    leases = ModelLeases(undo)
    operation = ModelOperation(1, "a", "x", ("k",), 0)
    operation.kind, operation.seq, operation.deadline_ns = "mail", 5, 0
    leases.add(operation)
    leases.work(ROUTE, "a", Work(1, {"mail": 2}, room=1, lease_ms=100, begins=True))
    undo.forget()
    return leases


def give(leases, token, attempt=1, now_ms=1000):
    """Lease the job; returns what is wrong with that."""
    return leases.give(ROUTE, LeasedJob(5, token, "x", "mail", attempt, 0, 0), now_ms)


def finish(leases, token, how, **fields):
    """End a lease in a transaction of its own; returns whether it was held."""
    leases.begin_transaction()
    done = leases.finish("a", Finish(9, [LeaseEnd(5, token, how, **fields)]), 1000).done
    leases.publish()
    return done[0]


def test_a_ready_job_is_given_where_there_is_room(leases):
    """It must be: a worker with room does not wait."""
    assert "x" in leases.idle(1000)
    assert not give(leases, 7)
    assert not leases.idle(1000)
    assert "not ready" in give(leases, 8)


def test_a_token_is_above_those_before(leases):
    """Also after the job was given back."""
    give(leases, 7)
    assert finish(leases, 7, How.RETURNED)
    assert "token 7" in give(leases, 7)


@pytest.mark.parametrize(("how", "attempt"), [(How.RETURNED, 1), (How.FAILED, 2)])
def test_an_attempt_that_was_given_back_does_not_count(leases, how, attempt):
    """One that has failed does."""
    give(leases, 7)
    assert finish(leases, 7, how)
    assert not finish(leases, 7, how)  # a second time
    assert not give(leases, 8, attempt)


def test_a_lease_that_is_lost_counts_if_its_handler_has_begun(leases):
    """Else no attempt has ended."""
    for begun in (False, True):
        leases.begin_transaction()
        give(leases, 7 + begun, now_ms=1000)
        if begun:
            leases.begin("a", Begin(2, [Lease(5, 8)]))
        leases.lose(leases.jobs["x"])
        leases.publish()
        assert leases.jobs["x"].attempts == begun


def test_a_kept_lease_lasts_from_now(leases):
    """As long as its worker has asked for."""
    give(leases, 7, now_ms=1000)
    assert leases.jobs["x"].until_ms == 1100
    assert leases.keep("a", Keep(3, [Lease(5, 7), Lease(5, 6)]), 1050).done == [True, False]
    assert leases.jobs["x"].until_ms == 1150


def test_the_last_attempt_leaves_a_dead_job(leases):
    """A failure waits for as long as its worker says."""
    give(leases, 7)
    finish(leases, 7, How.FAILED, delay_ms=50)
    assert "not ready" in give(leases, 8, 2, 1049)
    assert not give(leases, 9, 2, 1050)
    finish(leases, 9, How.FAILED)
    assert leases.jobs["x"].is_dead


def test_a_connection_that_let_a_lease_lapse_has_to_speak(leases):
    """Before it is given anything."""
    give(leases, 7)
    leases.begin_transaction()
    leases.lose(leases.jobs["x"], by_time=True)
    leases.publish()
    assert "no room" in give(leases, 8)
    leases.hear(ROUTE)
    assert not give(leases, 9)


def test_a_key_cancels_a_job_until_its_handler_begins(leases):
    """Whoever holds it."""
    give(leases, 7)
    leases.begin("a", Begin(2, [Lease(5, 7)]))
    assert leases.cancel_by_key("k", -1) == 0
    finish(leases, 7, How.RETURNED)
    leases.begin_transaction()
    assert leases.cancel_by_key("k", 0) == 0
    assert leases.cancel_by_key("k", 1) == 1
    leases.publish()
    assert not leases.jobs


@pytest.mark.parametrize("how", list(How))
def test_a_job_that_a_worker_has_ends_as_the_worker_says(leases, how):
    """If a key cancels it: there is no further lease."""
    give(leases, 7)
    leases.begin_transaction()
    assert leases.cancel_by_key("k", -1) == 1
    assert leases.cancel_by_key("k", -1) == 0
    leases.publish()
    assert leases.cancel_by_key("k", -1) == 0
    assert leases.keep("a", Keep(3, [Lease(5, 7)]), 1050).cancelled == [0]
    assert finish(leases, 7, how)
    assert not leases.jobs


def test_what_is_not_on_disk_is_taken_back(leases):
    """The lease goes on."""
    give(leases, 7)
    finish(leases, 7, How.DONE)
    leases._undo.take_back()
    assert leases.jobs["x"].worker is leases.workers[ROUTE]
