"""Options that several commands of `purgatory spark` share."""

from __future__ import annotations

import argparse


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a local Spark session: `cores` and `memory`."""
    group = parser.add_argument_group("local session (spark-submit has options of its own)")
    group.add_argument(
        "--cores", type=_cores, metavar="N", help="threads that work (default: all cores)"
    )
    group.add_argument(
        "--memory", metavar="SIZE", help="of the Java process, as 4g (default: a quarter)"
    )


def _cores(text: str) -> int:
    cores = int(text)
    if cores < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return cores
