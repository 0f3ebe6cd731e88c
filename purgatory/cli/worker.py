"""`purgatory worker`: runs the jobs of a program's `Worker`.

The worker runs in another thread, so a signal finds no lock taken.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Final

from purgatory.cli.options import (
    DURATION,
    SubParsers,
    add_command,
    add_log_format,
    import_extra,
)
from purgatory.cli.process import configure_logging, notify, signals_handled
from purgatory.service.errors import ConfigError, WorkerStuck

if TYPE_CHECKING:
    from purgatory.service.worker.worker import Worker

log = logging.getLogger(__name__)
log.setLevel(logging.INFO)  # the lines about the worker are shown without `--verbose`, too

# Seconds between two looks for a signal, and between two lines without a terminal.
_LOOK_S: Final = 0.2
_LINE_S: Final = 60.0

_DESCRIPTION: Final = """\
Run the jobs of a worker: MODULE:NAME is a purgatory.Worker with its handlers. The first SIGTERM or
SIGINT stops the worker: running handlers may finish, the other jobs are given back. The second
signal does not wait for handlers."""

_EXAMPLES: Final = """\
examples:
  purgatory worker reminders:worker

exit codes: 0 stopped by one signal, 1 handlers run beyond their time limits and cannot be stopped,
2 an error"""


def add_parsers(subparsers: SubParsers) -> None:
    """Add the command."""
    summary = "run the jobs of a program's worker"
    parser = add_command(subparsers, "worker", _run, summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("worker", metavar="MODULE:NAME", help="a purgatory.Worker, and its module")
    text = "serve metrics for Prometheus at this port of 127.0.0.1, or at HOST:PORT"
    parser.add_argument("--metrics-port", metavar="PORT", help=text)
    text = "how long to wait for running handlers at the end (30)"
    parser.add_argument("--drain", default=30.0, help=text, **DURATION)
    text = "log what is done, too, and what handlers log at level INFO"
    parser.add_argument("--verbose", action="store_true", help=text)
    add_log_format(parser)


def _run(arguments: argparse.Namespace) -> int:
    configure_logging(arguments.log_format, verbose=arguments.verbose)
    worker = _load(arguments.worker)
    if arguments.metrics_port is not None:
        _set_metrics(worker, arguments.metrics_port)
    received: list[int] = []
    with signals_handled((signal.SIGTERM, signal.SIGINT), received.append, once=True):
        try:
            import_extra("purgatory.service.client.arguments", "service").checked_seconds(
                arguments.drain, "--drain"
            )  # not only when a signal has come
            _run_until(received, worker, arguments.drain)
        except (TypeError, ValueError) as error:  # a bad address or option in the program
            raise ConfigError(f"worker {arguments.worker}: {error}") from error
        except WorkerStuck as error:
            print(f"purgatory: {error}", file=sys.stderr, flush=True)
            return 1
    return 0


def _set_metrics(worker: Worker, where: str) -> None:
    host, _, port = where.rpartition(":")
    if not port.isdecimal():
        raise ConfigError(f"--metrics-port is {where!r}; expected PORT or HOST:PORT")
    try:
        worker.serve_metrics_at(int(port), host or "127.0.0.1")
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _run_until(received: list[int], worker: Worker, drain: float) -> None:
    worker.start()
    notify("READY=1")
    progress = _Progress(worker)
    while not received and not worker.wait(_LOOK_S):
        progress.show()
    notify("STOPPING=1")
    worker.stop(drain)
    progress.end()
    worker.wait(0)  # raises the worker's error


def _load(name: str) -> Worker:
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError(f"worker {name}: expected MODULE:NAME")
    kind = import_extra("purgatory.service.worker.worker", "service").Worker
    sys.path.insert(0, os.getcwd())  # noqa: PTH109  # as `python -m` has it
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        raise ConfigError(f"worker {name}: there is no module {error.name}") from error
    except SystemExit as error:
        raise ConfigError(f"worker {name}: {module} ends the program with exit code {error.code}; "
                          "expected a module that can be imported") from error  # fmt: skip
    except Exception as error:  # of the program
        raise ConfigError(f"worker {name}: {type(error).__name__}: {error}") from error
    if not isinstance(found, kind):
        raise ConfigError(f"worker {name}: {module} has no purgatory.Worker named {attribute}")
    worker: Worker = found
    return worker


class _Progress:
    """A line about a worker: rewritten on a terminal, else each minute."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._seen = (time.monotonic(), 0)
        self._next_line = time.monotonic() + _LINE_S

    def show(self) -> None:
        now = time.monotonic()
        if self._is_terminal and now - self._seen[0] >= 1.0:
            self._print(f"\r{self._text()}\x1b[K")
        elif not self._is_terminal and now >= self._next_line:
            self._next_line = now + _LINE_S
            log.info("%s", self._text())

    def _text(self) -> str:
        counts, (before, done) = self._worker.counts, self._seen
        self._seen = time.monotonic(), counts.done
        rate = (counts.done - done) / max(1e-3, self._seen[0] - before)
        return (
            f"{self._worker.name}: {self._worker.running} running, {counts.done:,} done "
            f"({rate:,.1f}/s), {counts.failed:,} failed, {counts.lost:,} lost"
        )

    def _print(self, line: str) -> None:
        try:
            print(line, end="", file=sys.stderr, flush=True)
        except OSError:  # the terminal is gone, as after `disown`
            self._is_terminal = False

    def end(self) -> None:
        if self._is_terminal:
            self._print(f"\r{self._text()}\n")
        else:
            log.info("%s", self._text())
