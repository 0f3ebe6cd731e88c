"""The fixtures of the worker's tests."""

import pytest

from purgatory.service import Worker


@pytest.fixture
def worker(server):
    """Make workers of the name "jobs", started by the test, stopped at the end."""
    made = []

    def make(**options):
        usual = {"name": "jobs", "retry_delay": 0.001, "max_retry_delay": 0.01}
        made.append(Worker(server.address, **usual | options))
        return made[-1]

    yield make
    for one in made:
        one.stop(0)


@pytest.fixture
def client(server, connect):
    return connect(server, name="jobs")
