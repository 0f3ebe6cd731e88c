"""`purgatory replay`: send a trace through a purgatory and print a table of the outcomes.

Ctrl-C or SIGTERM stops the replay: the command prints the table so far, and exits with 130 or 143.
"""

import argparse
import contextlib
import gc
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from purgatory import metrics
from purgatory.cli.options import DURATION, SubParsers, add_command, number, port
from purgatory.cli.process import signals_handled
from purgatory.cli.progress import progress_shown
from purgatory.printable import counted, printable
from purgatory.replay.clock import STOP_POLL_S
from purgatory.replay.engine import Replay
from purgatory.replay.summary import ReplaySummary
from purgatory.trace import Reader, SkippedRows, TraceError, write_outcomes
from purgatory.trace.path_conflicts import check_outputs
from purgatory.trace.reader import batches_by_time, batches_in_order
from purgatory.trace.several_journals import journals_below, union
from purgatory.trace.tables import EVENTS, EXTENSIONS, OPERATIONS, Columns, Table, batched

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

# Least characters of a kind in the table, and more than any table has.
_KIND_WIDTH = 10
_ANY_WIDTH = 100_000

_DESCRIPTION = """\
Send a trace through a purgatory and print, for each kind of operation, how many completed and
expired, and how long they waited. OPERATIONS and EVENTS are .parquet, .csv, .jsonl (also .gz), or
directories of such files, in order of time. The directory of several servers over one database, as
for both, stands for all of their journals."""

_EXAMPLES = """\
examples:
  purgatory replay operations.parquet events.parquet
  purgatory replay operations.csv events.csv --sort --skip-bad --outcomes outcomes.parquet
  purgatory replay operations.parquet events.parquet --speed 3600 --metrics-port 9100"""


def add_parsers(subparsers: SubParsers) -> None:
    """Add the command."""
    summary = "send a trace through a purgatory"
    parser = add_command(subparsers, "replay", run, summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("operations", metavar="OPERATIONS", help="the table of operations")
    parser.add_argument("events", metavar="EVENTS", help="the table of key events")
    parser.add_argument("--extensions", metavar="FILE", help="the table of extensions of timeouts")
    parser.add_argument(
        "--speed",
        type=number,
        metavar="N",
        help="real time: N seconds of the trace a second (default: virtual time, no waiting)",
    )
    parser.add_argument("--outcomes", metavar="FILE", help="write the table of outcomes")
    parser.add_argument("--sort", action="store_true", help="sort the rows first, in memory")
    parser.add_argument("--skip-bad", action="store_true", help="count bad rows and skip them")
    parser.add_argument(
        "--metrics-port", type=port, metavar="PORT", help="serve Prometheus metrics on 127.0.0.1"
    )
    parser.add_argument(
        "--hold",
        default=15.0,
        help="after the end, serve metrics until they were scraped once more, "
        "or for so long (default: 15)",
        **DURATION,
    )


def run(arguments: argparse.Namespace) -> int:
    """Replay; return 0, or 128 + the signal that stopped it. Raises TraceError and MetricsError."""
    console = _console()
    if arguments.speed is not None and not 0 < arguments.speed < float("inf"):
        raise TraceError(f"--speed {arguments.speed}: expected a finite number above 0")
    if arguments.hold < 0:
        raise TraceError(f"--hold {arguments.hold}: expected 0 seconds or more")
    inputs = (arguments.operations, arguments.events, arguments.extensions)
    check_outputs({"--outcomes": arguments.outcomes}, inputs)
    registry = CollectorRegistry()
    # First, to see a scrape before the purgatory's counters are read.
    scraped = _Scraped()
    registry.register(scraped)
    with contextlib.ExitStack() as stack:
        out = None if arguments.outcomes is None else write_outcomes(arguments.outcomes)
        write = None if out is None else partial(out.write_columns, checked=True)
        replay = stack.enter_context(
            Replay(speed=arguments.speed, on_outcomes=write, registry=registry)
        )
        if arguments.metrics_port is not None:
            stack.enter_context(metrics.serve(arguments.metrics_port, registry=registry))
        received: list[int] = []

        def stop(number: int) -> None:
            received.append(number)
            replay.stop()

        signals = (signal.SIGINT, signal.SIGTERM)
        stack.enter_context(signals_handled(signals, stop, once=True))
        # The cycle collector would spend an eighth of the time on loaded modules.
        gc.freeze()
        stack.callback(gc.unfreeze)
        with out or contextlib.nullcontext():
            skipped = _replay(replay, arguments)
        # The outcomes are in their file by now: a print may fail.
        _print_result(replay, skipped, console)
        if arguments.metrics_port is not None and not replay.stopped:
            scraped.wait(arguments.hold, lambda: replay.stopped)
        return 128 + received[0] if received else 0


def _replay(replay: Replay, arguments: argparse.Namespace) -> list[tuple[str, int]]:
    skipped: dict[str, SkippedRows] = {}

    def on_bad(path: str) -> SkippedRows | None:
        return skipped.setdefault(path, SkippedRows()) if arguments.skip_bad else None

    with contextlib.ExitStack() as stack:

        def read(path: str, table: Table[Any]) -> Iterator[Columns]:
            paths: list[str | Path] = [*journals_below(path, table.name)] or [path]
            readers = [stack.enter_context(Reader(one, table, on_bad(path))) for one in paths]
            return _ordered(readers, sort=arguments.sort)

        extensions = arguments.extensions
        replay.run_columns(
            read(arguments.operations, OPERATIONS),
            read(arguments.events, EVENTS),
            stack.enter_context(_progress(replay)),
            extensions=None if extensions is None else read(extensions, EXTENSIONS),
        )
    return [(path, bad.count) for path, bad in skipped.items()]


def _ordered(readers: "list[Reader[Any]]", *, sort: bool) -> Iterator[Columns]:
    if len(readers) > 1:
        return batched(union(readers, sort=sort))
    return batches_by_time(readers[0]) if sort else batches_in_order(readers[0])


class _Scraped(Collector):
    """Notes scrapes of a registry."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def collect(self) -> Iterable[Metric]:
        self._event.set()
        return []

    def wait(self, seconds: float, stopped: Callable[[], bool]) -> None:
        """Wait for the next scrape, for `seconds` at most, or until stopped."""
        self._event.clear()
        deadline = time.monotonic() + seconds
        # In turns: a signal handler must not take the lock of an event.
        while not stopped() and time.monotonic() < deadline and not self._event.wait(STOP_POLL_S):
            pass


def _console() -> "Console":
    try:
        from purgatory.console import OutputConsole  # noqa: PLC0415  # rich is slow to import
    except ImportError as error:
        raise TraceError("replay needs rich: pip install 'timer-purgatory[trace]'") from error
    return OutputConsole()


@contextlib.contextmanager
def _progress(replay: Replay) -> Iterator[Callable[[int], None]]:
    """Show progress; yield a function to call with the number of rows read."""
    rows, start = deque([0], maxlen=1), time.monotonic()

    def text() -> str:
        seconds = time.monotonic() - start
        return f"{counted(rows[-1], 'row')}, {replay.pending:,} waiting, {seconds:.0f} s"

    with progress_shown(text):
        yield rows.append


def _print_result(replay: Replay, skipped: list[tuple[str, int]], console: "Console") -> None:
    total = replay.total()
    table = _table(replay, total)
    console.width = max(console.width, _least_width(table, replay, console))
    console.print(table)
    for path, count in skipped:
        console.print(
            f"skipped {counted(count, 'bad row')} of {printable(path)}",
            markup=False,
            highlight=False,
        )
    ended = total.ended
    rate = total.operations / replay.seconds if replay.seconds else 0
    state = f"interrupted, {total.pending:,} still waiting; " if replay.stopped else ""
    console.print(
        f"{state}{counted(total.operations, 'operation')}, {counted(ended, 'outcome')} "
        f"in {replay.seconds:.1f} s: {rate:,.0f} operations/s",
        highlight=False,
    )


def _table(replay: Replay, total: ReplaySummary) -> "RichTable":
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table()
    table.add_column("kind", overflow="fold")
    heads = ["operations", "completed", "expired", "share", "median wait", "p99 wait"]
    if replay.stopped:
        heads.insert(3, "waiting")
    if total.failed:
        heads.insert(2, "failed")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    cells = partial(_cells, waiting=replay.stopped, failed=total.failed > 0)
    by_size = sorted(replay.kinds.items(), key=lambda item: (-item[1].operations, item[0]))
    for name, kind in by_size:
        table.add_row(Text(printable(name) or "(none)"), *cells(kind))
    table.add_section()
    table.add_row("all", *cells(total))
    return table


def _least_width(table: "RichTable", replay: Replay, console: "Console") -> int:
    """Return the width that shows all figures; kinds fold below `_KIND_WIDTH` characters."""
    from rich.cells import cell_len  # noqa: PLC0415

    wide = console.options.update(width=_ANY_WIDTH)
    longest = max((cell_len(printable(name)) for name in replay.kinds), default=0)
    return console.measure(table, options=wide).maximum - max(0, longest - _KIND_WIDTH)


def _cells(kind: ReplaySummary, *, waiting: bool, failed: bool) -> list[str]:
    ended = kind.ended
    cells = [f"{kind.operations:,}", f"{kind.completed:,}", f"{kind.expired:,}"]
    if waiting:
        cells.append(f"{kind.pending:,}")
    if failed:
        cells.insert(2, f"{kind.failed:,}")
    cells.append(f"{kind.completed / ended:.1%}" if ended else "-")
    return cells + [_duration(kind.waits.quantile(share)) for share in (0.5, 0.99)]


def _duration(wait_ms: int | None) -> str:
    if wait_ms is None:
        return "-"
    if wait_ms < 1000:
        return f"{wait_ms} ms"
    if wait_ms < 60_000:
        return f"{wait_ms / 1000:.1f} s"
    minutes, seconds = divmod(wait_ms // 1000, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
