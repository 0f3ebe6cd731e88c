"""`purgatory store handover`: have a standby become active, for an upgrade of the active server."""

from __future__ import annotations

import argparse
import time
from typing import Final

from purgatory.cli.options import DURATION, SubParsers, add_command, import_extra
from purgatory.cli.output import say
from purgatory.cli.store.shared_database import add_store_options, lease_row, store_config

_DESCRIPTION: Final = """\
Have the active server answer what is in flight and stand by, and a standby take over. Clients that
know both addresses go on by themselves."""

_EXAMPLES: Final = """\
examples:
  purgatory store handover --store postgresql://db1,db2/purgatory

exit codes: 0 another server is active, 1 none stands by, or none has taken over, 2 an error"""

_BAD_NEWS: Final = 1
_PATIENCE_S: Final = 60.0


def add_handover(commands: SubParsers) -> None:
    """Add the command and its options."""
    summary = "have a standby become the active server"
    parser = add_command(commands, "handover", _handover, summary, _DESCRIPTION, _EXAMPLES)
    add_store_options(parser)
    parser.add_argument(
        "--timeout", default=_PATIENCE_S, help="how long to wait for it (60s)", **DURATION
    )


def _handover(arguments: argparse.Namespace) -> int:
    config = store_config(arguments)
    report = import_extra("purgatory.service.cluster.store_report", "service")
    begin = time.monotonic()
    with lease_row(config) as row:
        try:
            seen = report.hand_over(row, arguments.timeout)
        except report.HandoverRefused as error:
            say(str(error))
            return _BAD_NEWS
    seconds = time.monotonic() - begin
    say(f"{seen.address} is active, with epoch {seen.epoch}, after {seconds:.1f} s")
    return 0
