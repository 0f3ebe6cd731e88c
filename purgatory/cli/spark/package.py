"""`purgatory spark package`: write the files for spark-submit. Called from the main thread."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from purgatory.spark.package import write_package

_DESCRIPTION = """\
Write a zip of this package, and the program that uses it, into DIR:

  spark-submit --master MASTER --py-files DIR/purgatory.zip DIR/purgatory_main.py resolve ..."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "package",
        help="write the zip that spark-submit takes along",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="where to write")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    archive, program = write_package(arguments.directory)
    print(f"spark-submit --py-files {archive} {program} resolve OPERATIONS EVENTS --out DIR")
    return 0
