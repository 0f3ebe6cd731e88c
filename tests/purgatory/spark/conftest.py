"""One Spark session for all tests, as starting one takes seconds."""

import pytest

from purgatory.spark.session import local_session
from tests.purgatory.spark.java import SHORT_LIVED


@pytest.fixture(scope="session")
def spark():
    """A local session with two threads, made the way the package makes it."""
    conf = {"spark.driver.extraJavaOptions": SHORT_LIVED}
    session = local_session(cores=2, memory="2g", conf=conf)
    yield session
    session.stop()
