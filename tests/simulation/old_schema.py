"""The schema before the present one: brings a database back to it, as an older server leaves it.

It is the last migration taken back. Worlds with it have nothing that the older one could not store.
"""

from typing import Final

from purgatory.testing.world.database_files import SimulatedDatabaseFiles
from purgatory.testing.world.disk import Handles
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.server import DATABASE

#: The version of the schema that the steps lead back to.
VERSION_BEFORE: Final = 6
# Version 7 has added the attempts of jobs.
_STEPS_BACK: Final = (
    "DROP TABLE attempts",
    f"PRAGMA user_version={VERSION_BEFORE}",
)


def downgrade(machine: Machine) -> None:
    """Bring the database back to the schema before, as after a kill.

    No server runs. Nothing happens if it is not whole yet, or was brought back before.
    """
    machine.world.note("server: its database is of the version before")
    handles = Handles()
    files = SimulatedDatabaseFiles(machine.world, machine.disk, handles)
    connection = files.connect(str(DATABASE))
    if connection.execute("PRAGMA user_version").fetchone()[0] > VERSION_BEFORE:
        connection.execute("BEGIN IMMEDIATE")
        for step in _STEPS_BACK:
            connection.execute(step)
        connection.execute("COMMIT")
    handles.alive = False  # closed without its log being moved into the database
    files.close()
