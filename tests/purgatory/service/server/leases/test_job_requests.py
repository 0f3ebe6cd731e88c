"""Requests of workers are checked before anything changes."""

from functools import partial

import pytest
from msgspec import Raw

from purgatory.service.encoding import encode
from purgatory.service.protocol import (
    Failure,
    Finish,
    How,
    LeaseEnd,
    Work,
    Working,
)
from purgatory.service.server.leases import job_requests
from purgatory.service.server.validation import MOST_PERIOD_MS
from tests.testing.step_server import nested, step_server

__all__ = ["step_server"]


def test_bad_requests(step_server):
    """Each is refused as a whole, with an error that names the value."""
    for request, *args in [
        (Work, {"": 1}, -1, 1000),
        (Work, {"": 1}, job_requests.MAX_ROOM + 1, 1000),
        (Work, {"": 1}, 1, 5),
        (Work, {"": 0}, 1, 1000),
        (Work, dict.fromkeys(map(str, range(1001)), 1), 1, 1000),
        (Finish, [LeaseEnd(1, 1, 9)]),
        (Finish, [LeaseEnd(1, 1, How.FAILED, -1)]),
        (Finish, [LeaseEnd(1, 1, How.FAILED, 0, "x" * 1001)]),
        (Finish, [LeaseEnd(1, 1, How.DONE, 0, "", Raw(encode("x" * 1001)))]),
        (Finish, [LeaseEnd(1, 1, How.DONE, 0, "", Raw(encode(nested(501))))]),
    ]:
        answer = step_server.ask(request, *args)
        assert isinstance(answer, Failure), request
        assert "expected" in answer.message


def test_rooms_of_kinds(step_server):
    """Each is of a kind that the worker asks for, and no larger than a worker's."""
    for rooms in ({"": -1}, {"": job_requests.MAX_ROOM + 1}, {"other": 1}):
        answer = step_server.ask(Work, {"": 1}, 1, 1000, False, rooms)
        assert isinstance(answer, Failure)
        assert "expected" in answer.message


def test_as_many_kinds_as_there_may_be(step_server):
    """A worker may ask for MAX_KINDS kinds, and for MAX_ROOM jobs."""
    kinds = dict.fromkeys(map(str, range(job_requests.MAX_KINDS)), 1)
    answer = step_server.ask(Work, kinds, job_requests.MAX_ROOM, job_requests.MIN_LEASE_MS)
    assert isinstance(answer, Working)


@pytest.mark.parametrize(
    ("lease_ms", "attempts", "room"),
    [
        (job_requests.MIN_LEASE_MS, 1, 0),
        (MOST_PERIOD_MS, job_requests._MAX_ATTEMPTS, job_requests.MAX_ROOM),
    ],
)
def test_the_least_and_the_most_of_a_worker(step_server, lease_ms, attempts, room):
    """Both are taken, and nothing beyond."""
    ask = partial(step_server.ask, Work)
    assert isinstance(ask({"": attempts}, room, lease_ms, False, {"": room}), Working)
    step = 1 if attempts > 1 else -1
    for more in (
        ask({"": attempts + step}, room, lease_ms),
        ask({"": attempts}, room + step, lease_ms),
        ask({"": attempts}, room, lease_ms + step),
        ask({"": attempts}, room, lease_ms, False, {"": room + step}),
    ):
        assert isinstance(more, Failure)


def test_the_most_of_an_end(step_server):
    """The delay, the error and the result may be so large."""
    for end in (
        LeaseEnd(1, 1, How.FAILED, MOST_PERIOD_MS, "x" * 1000),
        LeaseEnd(1, 1, How.DONE, 0, "", Raw(encode("x" * 997))),
    ):
        assert step_server.ask(Finish, [end]).done == [False]
    for end in (
        LeaseEnd(1, 1, How.FAILED, MOST_PERIOD_MS + 1),
        LeaseEnd(1, 1, How.FAILED, 0, "x" * 1001),
        LeaseEnd(1, 1, How.DONE, 0, "", Raw(encode("x" * 998))),
    ):
        assert isinstance(step_server.ask(Finish, [end]), Failure)
