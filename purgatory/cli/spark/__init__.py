"""`purgatory spark`."""

from purgatory.cli.options import SubParsers, add_group
from purgatory.cli.spark.batch import add_package, add_report, add_resolve
from purgatory.cli.spark.stream import add_compact, add_run


def add_parsers(subparsers: SubParsers) -> None:
    """Add `spark`."""
    commands = add_group(
        subparsers,
        "spark",
        "the same on Spark, for traces too large for one machine",
        "Traces on Apache Spark, on this machine or, under spark-submit, a cluster.",
    )
    for add in (add_resolve, add_run, add_compact, add_report, add_package):
        add(commands)
