"""Shared fixtures: commands in this process, a year of flights, one Spark session."""

import pytest

from purgatory.cli import entry_point as cli
from purgatory.replay.engine import Replay
from purgatory.trace import read_events, read_operations, write_outcomes
from purgatory.trace.flights import write_flights


@pytest.fixture
def run(capsys):
    """Run a command in this process; return exit code, stdout and stderr."""

    def run(*argv):
        code = cli.main([str(word) for word in argv])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="session")
def spark():
    """One local session with two threads for all tests, made as the package makes it."""
    from purgatory.spark.session import local_session  # noqa: PLC0415 - an extra
    from tests.testing.java import QUICK_CONF  # noqa: PLC0415 - likewise

    session = local_session(cores=2, memory="2g", conf=QUICK_CONF)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def flights(tmp_path_factory):
    """A directory with the flights' operations.parquet and events.parquet."""
    pytest.importorskip("pyarrow")
    directory = tmp_path_factory.mktemp("flights")
    write_flights(directory)
    return directory


@pytest.fixture(scope="session")
def flights_outcomes(flights):
    """A Parquet file with the flights' outcomes from a replay."""
    path = flights / "outcomes.parquet"
    with write_outcomes(path) as out, Replay(on_outcome=out.write) as replay:
        with (
            read_operations(flights / "operations.parquet") as operations,
            read_events(flights / "events.parquet") as events,
        ):
            replay.run(operations, events)
    return path
