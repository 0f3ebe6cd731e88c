"""`purgatory spark run`: compute outcomes as a stream. Called from the main thread."""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from purgatory.cli.extras import import_extra
from purgatory.cli.spark.options import add_session_options
from purgatory.cli.spark.session import command_session
from purgatory.cli.terminal.durations import DURATION, seconds
from purgatory.errors import PurgatoryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from purgatory.spark.stream.entry import CheckpointEntry
    from purgatory.spark.stream.output import TopicOutput
    from purgatory.spark.stream.query import Stream
    from purgatory.spark.stream.sources import Source

_TABLES = ("operations", "events", "extensions")

_DESCRIPTION = """\
Run the purgatory as a stream: operations and events come as files that are put into two
directories (Parquet or JSON lines, moved there whole), or as Kafka topics; each outcome leaves
once, as Parquet in the directory of --out, also when the command is killed and started again. A
Kafka topic can get them, too (--outcomes-topic), after such a kill some of them twice.

Event time is over up to the latest time that both sources have shown, less the watermark; what is
over has its outcome. Rows that come later than that go to _late/ below --out, rows that break a
rule to _rejected/, each with its reason. One command runs on a checkpoint at a time; it belongs to
one pair of sources and one output."""

_EXAMPLES = """\
examples:
  purgatory spark run --operations in/operations --events in/events --out out --checkpoint cp
  purgatory spark run --operations in/operations --events in/events --out out --checkpoint cp --once
  spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0 ... spark run \\
      --kafka localhost:9092 --operations submitted --events happened --out out --checkpoint cp \\
      --outcomes-topic ended"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "run",
        help="operations and events as streams, outcomes exactly once",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, text in (("operations", "operations"), ("events", "key events")):
        parser.add_argument(
            f"--{name}", required=True, metavar="DIR", help=f"where {text} come (or Kafka topics)"
        )
    parser.add_argument(
        "--extensions", metavar="DIR", help="where extensions of timeouts come, if there are any"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="where outcomes go")
    _add_topic_options(parser)
    parser.add_argument(
        "--checkpoint", required=True, metavar="DIR", help="where the stream stands"
    )
    _add_ending_options(parser)
    parser.add_argument("--strict", action="store_true", help="stop at a row that breaks a rule")
    _add_time_options(parser)
    _add_state_options(parser)
    _add_source_options(parser)
    parser.add_argument(
        "--metrics-port", type=int, metavar="PORT", help="serve Prometheus metrics on 127.0.0.1"
    )
    add_session_options(parser)
    parser.set_defaults(run=_run)


def _add_ending_options(parser: argparse.ArgumentParser) -> None:
    endings = parser.add_mutually_exclusive_group()
    endings.add_argument(
        "--once",
        action="store_true",
        help="take what is there and stop; what is open stays pending for the next run",
    )
    endings.add_argument(
        "--until-end",
        action="store_true",
        help="the same, and then give every operation its outcome: no more rows will come",
    )


def _add_time_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--watermark",
        type=_seconds,
        default=600.0,
        metavar=DURATION,
        help="by how much rows may be out of order (default: 600)",
    )
    parser.add_argument(
        "--trigger",
        type=_seconds,
        default=1.0,
        metavar=DURATION,
        help="look for new rows this often (default: 1)",
    )


def _add_state_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--idle",
        type=_seconds,
        metavar=DURATION,
        help="after so long without rows from a source, its event time goes on with the clock "
        "(default: never)",
    )
    parser.add_argument(
        "--shards",
        type=_count,
        metavar="N",
        help="partitions of the state, when a stream begins (default: the cores)",
    )


def _add_source_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-files",
        type=_count,
        metavar="N",
        help="files of each directory in one micro-batch (default: all that are there)",
    )
    parser.add_argument(
        "--kafka",
        metavar="HOST:PORT",
        help="read Kafka topics: messages are JSON objects; needs Spark's Kafka connector",
    )
    parser.add_argument(
        "--option",
        action="append",
        type=_pair,
        default=[],
        metavar="NAME=VALUE",
        help="an option of Spark's source, for all of them; may be repeated",
    )
    for table in _TABLES:
        parser.add_argument(
            f"--{table}-option",
            action="append",
            type=_pair,
            default=[],
            metavar="NAME=VALUE",
            help=f"the same for {table} only",
        )


def _add_topic_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--outcomes-topic",
        metavar="TOPIC",
        help="a Kafka topic that gets the outcomes, too, at least once; the key is the op_id",
    )
    parser.add_argument(
        "--outcomes-option",
        action="append",
        type=_pair,
        default=[],
        metavar="NAME=VALUE",
        help="an option of Spark's Kafka sink; may be repeated",
    )


def _run(arguments: argparse.Namespace) -> int:
    options = _options(arguments)
    with command_session(arguments) as spark:
        done = _stream(spark, arguments, options)
    _print_result(done, arguments.out)
    return 0


def _stream(
    spark: SparkSession, arguments: argparse.Namespace, options: dict[str, str]
) -> CheckpointEntry:
    stream_module = import_extra("purgatory.spark.stream.query", "spark")
    progress_module = import_extra("purgatory.spark.progress", "spark")
    stopping = threading.Event()
    with progress_module.Progress("starting the stream") as progress, _stop_on_signal(stopping.set):
        operations, events, extensions = (
            _source(spark, arguments, table, options, stopping) for table in _TABLES
        )
        stream: Stream = stream_module.Stream(
            spark,
            operations,
            events,
            extensions=extensions,
            out=arguments.out,
            topic=_topic(arguments),
            checkpoint=arguments.checkpoint,
            watermark_ms=round(arguments.watermark * 1000),
            idle_seconds=arguments.idle,
            shards=arguments.shards,
            strict=arguments.strict,
            on_commit=progress.show,
            stopping=stopping,
        )
        with _metrics(spark, stream, arguments.metrics_port):
            return stream.run(
                once=arguments.once,
                until_end=arguments.until_end,
                trigger_seconds=arguments.trigger,
            )


def _source(
    spark: SparkSession,
    arguments: argparse.Namespace,
    table: str,
    options: dict[str, str],
    stopping: threading.Event,
) -> Source | None:
    """Return the source of a table, None without one."""
    place = getattr(arguments, table)
    if place is None:
        return None
    options = options | dict(getattr(arguments, f"{table}_option"))
    sources = import_extra("purgatory.spark.stream.sources", "spark")
    if arguments.kafka is not None:
        found: Source = sources.topic_source(place, arguments.kafka, options)
        return found
    if not (arguments.once or arguments.until_end):
        sources.wait_for_first_file(spark, place, stopping)
    directory: Source = sources.directory_source(spark, place, options)
    return directory


def _topic(arguments: argparse.Namespace) -> TopicOutput | None:
    """Return the topic for outcomes, None without one."""
    if arguments.outcomes_topic is None:
        return None
    options = dict(arguments.outcomes_option)
    servers = options.pop("kafka.bootstrap.servers", arguments.kafka)
    if servers is None:
        raise PurgatoryError(
            "--outcomes-topic: no broker; with sources that are directories, it is --outcomes-"
            "option kafka.bootstrap.servers=HOST:PORT"
        )
    module = import_extra("purgatory.spark.stream.output", "spark")
    found: TopicOutput = module.TopicOutput(arguments.outcomes_topic, servers, options)
    return found


def _options(arguments: argparse.Namespace) -> dict[str, str]:
    options = dict(arguments.option)
    if arguments.max_files is not None:
        options["maxFilesPerTrigger"] = str(arguments.max_files)
    return options


@contextlib.contextmanager
def _metrics(spark: SparkSession, stream: Stream, port: int | None) -> Iterator[None]:
    if port is None:
        yield
        return
    from prometheus_client import CollectorRegistry  # noqa: PLC0415 - only for this option

    from purgatory import metrics  # noqa: PLC0415

    listener = import_extra("purgatory.spark.stream.metrics", "spark").StreamMetrics(stream)
    registry = CollectorRegistry()
    registry.register(listener)
    spark.streams.addListener(listener)
    try:
        with metrics.serve(port, registry=registry):
            yield
    finally:
        spark.streams.removeListener(listener)


@contextlib.contextmanager
def _stop_on_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Make SIGTERM and Ctrl-C stop the stream; the exit code is 0.

    A second Ctrl-C interrupts, as it does elsewhere.
    """
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in signals}

    def handle(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop()

    for number in signals:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_result(done: CheckpointEntry, out: str) -> None:
    counts = done.counts
    ended = [f"{counts['completed']:,} completed", f"{counts['expired']:,} expired"]
    if counts["failed"]:
        ended.insert(1, f"{counts['failed']:,} failed")
    ended.append(f"{done.pending:,} pending")
    print(f"{counts['operations']:,} operations: {', '.join(ended)} -> {out}")
    for fate in ("late", "rejected"):
        rows = sum(counts[f"{fate}_{table}"] for table in ("operations", "extensions", "events"))
        if rows:
            print(f"{rows:,} rows {fate} -> {out}/_{fate}")


def _seconds(text: str) -> float:
    duration = seconds(text)
    if not 0 <= duration < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a duration of 0 or more")
    return duration


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return count


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text} is not of the form NAME=VALUE")
    return name, value
