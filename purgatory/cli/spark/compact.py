"""`purgatory spark compact`: merge the output of a stream. Called from the main thread."""

from __future__ import annotations

import argparse
import functools
from typing import Any

from purgatory.cli.extras import import_extra
from purgatory.cli.spark.options import add_session_options
from purgatory.cli.spark.session import command_session

_DESCRIPTION = """\
Move the outcomes that a stream has committed from its many small files into few large ones, in a
directory of their own; rows that were late or rejected, too. The stream may be running. Started
again, also after kill -9, the command goes on: each outcome is in one file of either directory,
and in the archive never twice. Readers of the archive may read it at any time.

The stream is known by its checkpoint. A later run may have another archive, as one a month."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "compact",
        help="merge the small files of a stream's output into an archive",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--checkpoint", required=True, metavar="DIR", help="that of the stream; it knows the output"
    )
    parser.add_argument("--archive", required=True, metavar="DIR", help="where large files go")
    parser.add_argument(
        "--megabytes",
        type=_megabytes,
        default=128,
        metavar="MB",
        help="of small files in one large file, at most (default: 128)",
    )
    add_session_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    module = import_extra("purgatory.spark.stream.compaction", "spark")
    with command_session(arguments) as spark:
        merge = functools.partial(module.merge_parquet, spark)
        archive = module.Archive(spark, arguments.checkpoint, arguments.archive, merge)
        done = archive.take(arguments.megabytes * 2**20)
    files = sum(merge.files for merge in done)
    print(f"{files:,} files merged into {len(done):,} -> {arguments.archive}")
    return 0


def _megabytes(text: str) -> int:
    megabytes = int(text)
    if megabytes < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return megabytes
