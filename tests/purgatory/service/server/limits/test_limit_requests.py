"""Requests about limits of kinds."""

import math

import pytest

from purgatory.service.job_messages import Limited, LimitSet, ReadLimits, SetLimit
from purgatory.service.protocol import Failure
from purgatory.service.server.limits import limit_requests
from purgatory.service.server.limits.kind_limits import PAUSED, RUNNING
from tests.testing.step_server import StepServer, job, step_server

__all__ = ["step_server"]


def listed(server):
    answer = server.ask(ReadLimits)
    assert isinstance(answer, Limited)
    return [(one.kind, one.paused, one.running, one.per_second) for one in answer.limits]


def test_fields_that_are_not_given(step_server):
    """They stay as they are; 0 is no limit, and a kind without any is not listed."""
    for fields, found in [
        ((None, 5), [("mail", False, 5, None)]),
        ((None, None, 2.5), [("mail", False, 5, 2.5)]),
        ((True,), [("mail", True, 5, 2.5)]),
        ((), [("mail", True, 5, 2.5)]),
        ((False, 0), [("mail", False, None, 2.5)]),
        ((None, None, 0), []),
    ]:
        assert isinstance(step_server.ask(SetLimit, "mail", *fields), LimitSet)
        assert listed(step_server) == found
    step_server.ask(SetLimit, "z", True)
    step_server.ask(SetLimit, "", None, 1)
    assert [kind for kind, *_ in listed(step_server)] == ["", "z"]


def test_jobs_that_a_worker_has_taken_ahead(step_server):
    """They count as running, wait for nothing, and may begin although their kind is paused."""
    step_server.submit(*[job(f"j{n}", timeout_ms=0) for n in range(3)])
    step_server.ask(SetLimit, "", None, 2)
    step_server.pass_time(1)
    ahead = step_server.work(begins=True)
    states = [step_server.job(f"j{n}") for n in range(3)]
    assert [(one.state, one.why) for one in states] == [
        ("ready", ""),
        ("ready", ""),
        ("ready", RUNNING),
    ]
    step_server.ask(SetLimit, "", True)
    step_server.begin(*ahead)
    assert step_server.job_states("j0", "j1", "j2") == ["running", "running", "ready"]
    step_server.finish(*ahead)
    assert step_server.leased == []
    assert step_server.job("j2").why == PAUSED


@pytest.mark.parametrize("rate", [math.nan, math.inf, 1e-7, 1e7, -1.0])
def test_rates_that_cannot_be(step_server, rate):
    """The value is named."""
    answer = step_server.ask(SetLimit, "mail", None, None, rate)
    assert isinstance(answer, Failure)
    assert str(rate) in answer.message
    assert listed(step_server) == []


def test_too_many(step_server, monkeypatch):
    """The limits of those that have some can be changed, and lifted."""
    monkeypatch.setattr(limit_requests, "MOST", 2)
    for kind in "ab":
        assert isinstance(step_server.ask(SetLimit, kind, True), LimitSet)
    answer = step_server.ask(SetLimit, "c", True)
    assert isinstance(answer, Failure)
    assert isinstance(step_server.ask(SetLimit, "a", None, 5), LimitSet)
    assert isinstance(step_server.ask(SetLimit, "a", False, 0), LimitSet)
    assert isinstance(step_server.ask(SetLimit, "c", True), LimitSet)


def test_their_memory():
    """It is charged while there is a limit, and refused where there is no room."""
    server = StepServer(None)
    before = server.state.memory_bytes
    server.ask(SetLimit, "mail", True)
    assert server.state.memory_bytes > before
    server.ask(SetLimit, "mail", False)
    assert server.state.memory_bytes == before
    server.state.max_memory = 1
    assert isinstance(server.ask(SetLimit, "mail", True), Failure)
    server.store.close()
