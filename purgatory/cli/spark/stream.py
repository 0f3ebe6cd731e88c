"""`purgatory spark run` and `compact`."""

from __future__ import annotations

import argparse
import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from _purgatory_cpython.threads import InterruptibleEvent
from purgatory.cli.options import (
    COUNT,
    DURATION,
    SubParsers,
    add_command,
    import_extra,
    port,
    seconds,
)
from purgatory.cli.output import say
from purgatory.cli.process import signals_handled
from purgatory.cli.progress import progress_shown
from purgatory.cli.spark.session import add_session_options, command_session
from purgatory.errors import PurgatoryError
from purgatory.printable import counted
from purgatory.trace.path_conflicts import check_outputs

if TYPE_CHECKING:
    import threading

    from pyspark.sql import SparkSession

    from purgatory.spark.stream.entry import CheckpointEntry
    from purgatory.spark.stream.output import TopicOutput
    from purgatory.spark.stream.query import Stream
    from purgatory.spark.stream.sources import Source

_TABLES: Final = ("operations", "events", "extensions")

_RUN: Final = """\
Run the purgatory as a stream: operations and events come as files that are put into two
directories (Parquet or JSON lines, moved there whole), or as Kafka topics; each outcome leaves
once, as Parquet in the directory of --out, also when the command is killed and started again. A
Kafka topic can get them, too (--outcomes-topic), after such a kill some of them twice.

Event time is over up to the latest time that all sources have shown, less the watermark; what is
over has its outcome. Rows that come later than that go to _late/ below --out, rows that break a
rule to _rejected/, each with its reason. One command runs on a checkpoint at a time; a
checkpoint goes with the same sources and output."""

_RUN_EXAMPLES: Final = """\
examples:
  purgatory spark run --operations in/operations --events in/events --out out --checkpoint cp
  purgatory spark run --operations in/operations --events in/events --out out --checkpoint cp --once
  spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0 \\
      --py-files DIR/purgatory.zip DIR/purgatory_main.py run --kafka localhost:9092 \\
      --operations submitted --events happened --out out --checkpoint cp --outcomes-topic ended"""

_COMPACT: Final = """\
Move the outcomes that a stream has committed from its many small files into few large ones, in a
directory of their own; rows that were late or rejected, too. The stream may be running. Started
again, also after kill -9, the command goes on: no outcome is lost, or twice in the archive, which
may be read at any time.

The stream is known by its checkpoint. A later run may have another archive, as one a month."""


def add_run(subparsers: SubParsers) -> None:
    """Add `spark run`."""
    summary = "operations and events as streams, outcomes exactly once"
    parser = add_command(subparsers, "run", _run, summary, _RUN, _RUN_EXAMPLES)
    for name, text in (("operations", "operations"), ("events", "key events")):
        parser.add_argument(
            f"--{name}", required=True, metavar="DIR", help=f"where {text} come (or Kafka topics)"
        )
    parser.add_argument(
        "--extensions", metavar="DIR", help="where extensions of timeouts come, if there are any"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="where outcomes go")
    parser.add_argument(
        "--outcomes-topic",
        metavar="TOPIC",
        help="a Kafka topic that gets the outcomes, too, at least once; the key is the op_id",
    )
    _add_pairs(parser, "--outcomes-option", "an option of Spark's Kafka sink; may be repeated")
    parser.add_argument(
        "--checkpoint", required=True, metavar="DIR", help="where the stream stands"
    )
    endings = parser.add_mutually_exclusive_group()
    endings.add_argument(
        "--once",
        action="store_true",
        help="process present rows and stop; open operations stay pending for the next run",
    )
    endings.add_argument(
        "--until-end",
        action="store_true",
        help="the same, and then give every operation its outcome: no more rows will come",
    )
    parser.add_argument("--strict", action="store_true", help="stop at a row that breaks a rule")
    _add_time_options(parser)
    _add_source_options(parser)
    parser.add_argument(
        "--metrics-port", type=port, metavar="PORT", help="serve Prometheus metrics on 127.0.0.1"
    )
    add_session_options(parser)


def _add_time_options(parser: argparse.ArgumentParser) -> None:
    duration = DURATION | {"type": _seconds}
    parser.add_argument(
        "--watermark",
        default=600.0,
        help="by how much rows may be out of order (default: 600)",
        **duration,
    )
    parser.add_argument(
        "--trigger", default=1.0, help="look for new rows this often (default: 1)", **duration
    )
    parser.add_argument(
        "--idle",
        help="after so long without rows from a source, its event time follows the clock "
        "(default: never)",
        **duration,
    )
    parser.add_argument(
        "--shards",
        help="partitions of the state, when a stream begins (default: the cores)",
        **COUNT,
    )


def _add_source_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-files",
        help="files of each directory in one micro-batch (default: as many as have 64 MB)",
        **COUNT,
    )
    parser.add_argument(
        "--kafka",
        metavar="HOST:PORT",
        help="read Kafka topics: messages are JSON objects; needs Spark's Kafka connector",
    )
    text = "an option of Spark's source, for all of them; may be repeated"
    _add_pairs(parser, "--option", text)
    for table in _TABLES:
        _add_pairs(parser, f"--{table}-option", f"the same for {table} only")


def _add_pairs(parser: argparse.ArgumentParser, flag: str, text: str) -> None:
    parser.add_argument(
        flag, action="append", type=_pair, default=[], metavar="NAME=VALUE", help=text
    )


def _seconds(text: str) -> float:
    duration = seconds(text)
    if not 0 <= duration < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a duration of 0 or more")
    return duration


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text} is not of the form NAME=VALUE")
    return name, value


def _run(arguments: argparse.Namespace) -> int:
    options = _options(arguments)
    inputs = [] if arguments.kafka else [getattr(arguments, table) for table in _TABLES]
    check_outputs({"--out": arguments.out, "--checkpoint": arguments.checkpoint}, inputs)
    with command_session(arguments) as spark:
        done = _stream(spark, arguments, options)
    _print_result(done, arguments.out)
    return 0


def _stream(
    spark: SparkSession, arguments: argparse.Namespace, options: dict[str, str]
) -> CheckpointEntry:
    stream_module = import_extra("purgatory.spark.stream.query", "spark")
    progress_module = import_extra("purgatory.spark.progress", "spark")
    stopping = InterruptibleEvent()  # for a signal handler

    def stop(_: int) -> None:
        """Stop the stream, with exit code 0; a second Ctrl-C interrupts."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stopping.set()

    signals = (signal.SIGTERM, signal.SIGINT)
    with (
        progress_module.Progress("starting the stream") as progress,
        signals_handled(signals, stop, once=False),
    ):
        operations, events, extensions = (
            _source(spark, arguments, table, options, stopping, progress.show) for table in _TABLES
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
    show: Callable[[str], object],
) -> Source | None:
    place = getattr(arguments, table)
    if place is None:
        return None
    options = options | dict(getattr(arguments, f"{table}_option"))
    sources = import_extra("purgatory.spark.stream.sources", "spark")
    if arguments.kafka is not None:
        found: Source = sources.topic_source(place, arguments.kafka, options)
        return found
    if not (arguments.once or arguments.until_end):
        sources.wait_for_first_file(spark, place, stopping, show)
    directory: Source = sources.directory_source(spark, place, options)
    return directory


def _topic(arguments: argparse.Namespace) -> TopicOutput | None:
    if arguments.outcomes_topic is None:
        return None
    options = dict(arguments.outcomes_option)
    servers = options.pop("kafka.bootstrap.servers", arguments.kafka)
    if servers is None:
        raise PurgatoryError(
            "--outcomes-topic: no broker; if the sources are directories, give --outcomes-"
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


def _print_result(done: CheckpointEntry, out: str) -> None:
    counts = done.counts
    ended = [f"{counts['completed']:,} completed", f"{counts['expired']:,} expired"]
    if counts["failed"]:
        ended.insert(1, f"{counts['failed']:,} failed")
    ended.append(f"{done.pending:,} pending")
    say(f"{counted(counts['operations'], 'operation')}: {', '.join(ended)} -> {out}")
    for fate in ("late", "rejected"):
        rows = sum(counts[f"{fate}_{table}"] for table in ("operations", "extensions", "events"))
        if rows:
            say(f"{counted(rows, 'row')} {fate} -> {out}/_{fate}")


def add_compact(subparsers: SubParsers) -> None:
    """Add `spark compact`."""
    summary = "merge the small files of a stream's output into an archive"
    parser = add_command(subparsers, "compact", _compact, summary, _COMPACT)
    parser.add_argument(
        "--checkpoint", required=True, metavar="DIR", help="the checkpoint of the stream"
    )
    parser.add_argument("--archive", required=True, metavar="DIR", help="where large files go")
    parser.add_argument(
        "--megabytes",
        default=128,
        help="of small files in one large file, at most (default: 128)",
        **COUNT | {"metavar": "MB"},
    )
    add_session_options(parser)


def _compact(arguments: argparse.Namespace) -> int:
    check_outputs({"--archive": arguments.archive}, [arguments.checkpoint])
    module = import_extra("purgatory.spark.stream.compaction", "spark")
    with command_session(arguments) as spark:
        merged: list[int] = []

        def merge(files: list[str], target: str) -> None:
            module.merge_parquet(spark, files, target)
            merged.append(len(files))

        archive = module.Archive(spark, arguments.checkpoint, arguments.archive, merge)
        with progress_shown(lambda: f"{counted(sum(merged), 'file')} merged into {len(merged):,}"):
            done = archive.take(arguments.megabytes * 2**20)
    files = sum(merge.files for merge in done)
    say(f"{counted(files, 'file')} merged into {len(done):,} -> {arguments.archive}")
    return 0
