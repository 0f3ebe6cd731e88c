"""Frames of jobs are of a limited size."""

import pytest

from purgatory.service.encoding import unpack
from purgatory.service.server.reads.outcome_frames import FRAME_BYTES
from tests.testing.step_server import StepServer, frames_of, job

LARGE = FRAME_BYTES  # a payload that fills a frame


@pytest.fixture
def server():
    """A server that takes large payloads."""
    server = StepServer(None, payload_bytes=2 * LARGE, message_bytes=8 * LARGE)
    yield server
    server.store.close()


def due(server, *op_ids, **others):
    """Submit jobs and let them become due; returns what is leased then."""
    server.submit(*[job(op_id, **others) for op_id in op_ids])
    server.pass_time(1001)
    return server.leased


def test_leased_jobs_in_frames(server):
    """Each large job has a frame, in the order in which they are leased; small ones share one."""
    server.work(room=5)
    server.submit(*[job(op_id, payload=op_id * LARGE) for op_id in "abc"], job("d"), job("e"))
    server.pass_time(1001)
    assert [(one.op_id, unpack(one.payload)) for one in server.leased] == [
        *[(op_id, op_id * LARGE) for op_id in "abc"],
        ("d", None),
        ("e", None),
    ]
    assert len([pair for command in server.sent for pair in frames_of(command)]) == 4
