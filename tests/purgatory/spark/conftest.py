"""One Spark session for all tests, as starting one takes seconds; and the flights, made once."""

import pytest

from purgatory.replay import Replay
from purgatory.spark.session import local_session
from purgatory.trace import read_events, read_operations, write_outcomes
from purgatory.trace.flights import write_flights
from tests.purgatory.spark.java import SHORT_LIVED


@pytest.fixture(scope="session")
def spark():
    """A local session with two threads, made the way the package makes it."""
    conf = {"spark.driver.extraJavaOptions": SHORT_LIVED}
    session = local_session(cores=2, memory="2g", conf=conf)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def flights(tmp_path_factory):
    """A directory with the flights' operations.parquet and events.parquet."""
    directory = tmp_path_factory.mktemp("flights")
    write_flights(directory)
    return directory


@pytest.fixture(scope="session")
def flights_outcomes(flights):
    """A Parquet file with the outcomes of the flights, as a replay has them."""
    path = flights / "outcomes.parquet"
    with write_outcomes(path) as out, Replay(on_outcome=out.write) as replay:
        with (
            read_operations(flights / "operations.parquet") as operations,
            read_events(flights / "events.parquet") as events,
        ):
            replay.run(operations, events)
    return path
