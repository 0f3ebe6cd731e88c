"""The Spark session of a command."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from purgatory.cli.options import COUNT, import_extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def command_session(
    arguments: argparse.Namespace, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Provide a session by a command's options; see `open_session`."""
    # py4j logs and raises each failure; without a handler Python would print the logs.
    logging.basicConfig(handlers=[logging.NullHandler()])
    session = import_extra("purgatory.spark.session", "spark")
    given = {"cores": arguments.cores, "memory": arguments.memory, "conf": conf}
    with session.open_session(**given) as spark:
        yield spark


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a local Spark session: `cores` and `memory`."""
    group = parser.add_argument_group("local session (spark-submit has options of its own)")
    group.add_argument("--cores", help="worker threads (default: all cores)", **COUNT)
    group.add_argument(
        "--memory", metavar="SIZE", help="of the Java process, as 4g (default: a quarter)"
    )
