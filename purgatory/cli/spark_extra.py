"""What the commands of `purgatory spark` share, and how they reach Spark only when they run.

A command is a module `..._command` with a function `add_parser(subparsers)`, listed in
`purgatory.cli.spark`; it imports nothing of Spark itself, so that the command line works, and is
quick, without. Called from the main thread.
"""

from __future__ import annotations

import argparse
import importlib
from types import ModuleType

from purgatory.errors import PurgatoryError


class SparkMissing(PurgatoryError):
    """The extra `timer-purgatory[spark]` is not installed."""


def implementation(name: str) -> ModuleType:
    """Import a module that uses Spark; `SparkMissing` says what to install."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "purgatory":
            raise
        raise SparkMissing(f"this needs {missing}: pip install 'timer-purgatory[spark]'") from error


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a local session is made: `cores` and `memory`."""
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
