"""`purgatory store`: a database that several servers share. Called from the main thread."""

from __future__ import annotations

from typing import Final

from purgatory.cli.options import SubParsers, add_group
from purgatory.cli.store import copying, handover, status

_DESCRIPTION: Final = """\
Look at the servers that share a PostgreSQL database, and change which of them is active."""


def add_parser(subparsers: SubParsers) -> None:
    """Add `purgatory store` and its subcommands."""
    summary = "look after a database that several servers share"
    commands = add_group(subparsers, "store", summary, _DESCRIPTION)
    status.add_status(commands)
    handover.add_handover(commands)
    copying.add_copy(commands)
