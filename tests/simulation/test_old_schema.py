"""The schema before: a world's database is brought back to it, and a server migrates it."""

import sqlite3
from pathlib import Path

import pytest

from purgatory.service.store.sqlite.schema import SCHEMA_VERSION
from purgatory.testing.world.database_files import SimulatedDatabaseFiles
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.server import DATABASE, ServerHost
from tests.simulation.old_schema import VERSION_BEFORE, downgrade

DUMPS = Path(__file__).parents[1] / "purgatory" / "service" / "store" / "sqlite"
COPY = f"{DATABASE}.version-{VERSION_BEFORE}"


@pytest.fixture
def host(world):
    """A server that was brought back to the schema before, and is down."""
    made = ServerHost(Machine(world, "server"), SimulatedNetwork(world))
    world.run(5)
    made.kill()
    downgrade(made.machine)
    yield made
    made.kill()
    made.discard()


def schema(connection):
    """Return the version of a database, and its tables without comments."""
    [(version,)] = connection.execute("PRAGMA user_version")
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    tables = {
        name: "".join(line.partition("--")[0].strip() for line in sql.splitlines())
        for name, sql in rows
    }
    return version, tables


def schema_on(disk, world):
    """Return that of the server's database."""
    files = SimulatedDatabaseFiles(world, disk, disk.open_handles())
    found = schema(files.connect(str(DATABASE)))
    files.close()
    return found


def test_it_is_the_schema_before(world, host):
    """The tables are those that the program of that time has made."""
    old = sqlite3.connect(":memory:")
    old.executescript((DUMPS / f"version_{VERSION_BEFORE}.sql").read_text(encoding="utf-8"))
    assert schema_on(host.machine.disk, world) == schema(old)
    assert VERSION_BEFORE == SCHEMA_VERSION - 1
    old.close()


def test_a_server_brings_it_up_to_date(world, host):
    """After a copy; what was brought up to date is brought back again."""
    for starts in (2, 3):
        world.run(5)
        assert host.starts == starts
        assert host.machine.disk.exists(COPY)
        host.kill()
        world.run(0.01)
        assert schema_on(host.machine.disk, world)[0] == SCHEMA_VERSION
        downgrade(host.machine)
        downgrade(host.machine)
        assert schema_on(host.machine.disk, world)[0] == VERSION_BEFORE


def test_power_is_lost_in_the_middle(world, host):
    """Of the migration, or of the copy before: the next start goes on from there."""
    for write in range(40):
        left = write

        def before_step(handles):
            nonlocal left
            left -= 1
            if left < 0 and handles.alive:
                host.machine.disk.work_well()
                host.lose_power()

        host.machine.disk.set_faults(before_step, before_step)
        world.run(5)
        host.machine.disk.work_well()
        world.run(5)
        assert host.process is not None
        host.kill()
        downgrade(host.machine)
