"""Frames of jobs are of a limited size."""

import pytest

from purgatory.service.encoding import unpack
from purgatory.service.protocol import (
    How,
    ReadDead,
)
from purgatory.service.server.leases import job_frames
from tests.testing.step_server import frames_of, job, step_server

__all__ = ["step_server"]


def due(server, *op_ids, **others):
    """Submit jobs and let them become due; returns what is leased then."""
    server.submit(*[job(op_id, **others) for op_id in op_ids])
    server.pass_time(1001)
    return server.leased


@pytest.fixture
def frames(monkeypatch):
    """Each frame ends with its first job."""
    monkeypatch.setattr(job_frames, "FRAME_BYTES", 1)


def test_leased_jobs_in_frames(step_server, frames):
    """Each job has a frame, with what was submitted, in the order in which they are leased."""
    step_server.work(room=3)
    step_server.submit(*[job(op_id, payload=op_id) for op_id in "abc"])
    step_server.pass_time(1001)
    assert [(one.op_id, unpack(one.payload)) for one in step_server.leased] == [
        (op_id, op_id) for op_id in "abc"
    ]
    assert len([pair for command in step_server.sent for pair in frames_of(command)]) == 3


def test_dead_jobs_in_portions(step_server, frames):
    """A message ends when it is full; the next one begins after its last job."""
    step_server.work(attempts=1)
    step_server.finish(*due(step_server, *"ab", payload=7), how=How.FAILED, error="no")
    [first] = step_server.ask(ReadDead).jobs
    [second] = step_server.ask(ReadDead, first.number).jobs
    assert [(one.op_id, one.error, unpack(one.payload)) for one in (first, second)] == [
        ("a", "no", 7),
        ("b", "no", 7),
    ]
