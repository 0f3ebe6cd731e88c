"""One Spark session for all tests, as starting one takes seconds."""

import pytest

from purgatory.spark.session import local_session
from tests.purgatory.spark.java import QUICK


@pytest.fixture(scope="session")
def spark():
    """A local session with two threads, made the way the package makes it."""
    session = local_session(cores=2, memory="2g", conf=QUICK)
    yield session
    session.stop()
