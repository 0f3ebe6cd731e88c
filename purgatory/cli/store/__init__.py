"""`purgatory store`: a database that several servers share."""

from typing import Final

from purgatory.cli.options import SubParsers, add_group
from purgatory.cli.store.copying import add_copy
from purgatory.cli.store.shared_database import add_handover, add_status

_DESCRIPTION: Final = """\
Look at the servers that share a PostgreSQL database, and change which of them is active."""


def add_parsers(subparsers: SubParsers) -> None:
    """Add `purgatory store`."""
    summary = "look after a database that several servers share"
    commands = add_group(subparsers, "store", summary, _DESCRIPTION)
    add_status(commands)
    add_handover(commands)
    add_copy(commands)
