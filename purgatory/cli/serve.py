"""`purgatory serve`: run a server until SIGTERM or SIGINT.

The first signal ends the server in order: it accepts nothing new, answers what is in flight, and
exits with 0. The second acts as without a handler. SIGHUP reloads the allow-list.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import Field, fields
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self

from purgatory.cli.options import DURATION, SubParsers, add_command, import_extra, optional_path
from purgatory.cli.process import configure_logging, notify, raise_descriptor_limit, tell
from purgatory.cli.progress import erase_progress, progress_shown
from purgatory.service.config import Config

if TYPE_CHECKING:
    from purgatory.service.cluster.cluster_daemon import ClusterDaemon
    from purgatory.service.daemon import ServiceDaemon

log: logging.Logger = logging.getLogger(__name__)

# The interpreter's switch interval. The store thread waits after a statement; the default of 5 ms
# is longer than most commits.
SWITCH_SECONDS: Final = 0.0005
# A look of the cycle collector at a hundred thousand objects stops all threads for 20 ms. So it
# looks at few at a time, and seldom at old ones: operations live long and form no cycles.
GC_THRESHOLD: Final = (2_000, 10, 10_000)
# In place of a signal's number: the server has ended by itself.
_ENDED: Final = 0

_DESCRIPTION: Final = """\
Serve delayed operations to other processes over ZeroMQ. Settings come from, in rising order: the
defaults, the TOML file, the environment (PURGATORY_ and the name in capitals, as in
PURGATORY_DATA_DIR), flags. SIGTERM and SIGINT end it in order, SIGHUP reloads the allow-list."""

_EXAMPLES: Final = """\
examples:
  purgatory serve --data-dir /var/lib/purgatory
  purgatory serve --memory --bind tcp://127.0.0.1:7500
  PURGATORY_MAX_PENDING=100000 purgatory serve --config purgatory.toml
  PURGATORY_STORE=postgresql://db/purgatory purgatory serve --advertise tcp://a:7411

exit codes: 0 ended by a signal, 2 it could not start, or its disk failed"""

# Settings without a default, or with one in their help.
_NO_DEFAULT: Final = ("keys_dir", "http_hosts", "max_memory", "store", "partition", "advertise")


def add_parsers(subparsers: SubParsers) -> None:
    """Add the command."""
    summary = "run a timer service"
    parser = add_command(subparsers, "serve", run, summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("--config", metavar="FILE", help="TOML file of settings")
    parser.add_argument("--verbose", action="store_true", help="log what is done, to stderr")
    defaults = Config()
    for setting in fields(Config):
        _add_setting(parser, setting, getattr(defaults, setting.name))


def _add_setting(parser: argparse.ArgumentParser, setting: Field[Any], default: object) -> None:
    flag, kind = f"--{setting.name.replace('_', '-')}", setting.type
    text = setting.metadata["help"]
    if kind is bool:
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=text)
        return
    if setting.name not in _NO_DEFAULT:
        shown = f"{default:.15g}" if isinstance(default, float) else default
        text += f" (default: {shown})"
    if kind is float:
        parser.add_argument(flag, help=text, **DURATION)
        return
    metavar = setting.metadata.get("metavar") or ("N" if kind is int else "DIR")
    parser.add_argument(flag, metavar=metavar, help=text)


def run(arguments: argparse.Namespace) -> int:
    """Serve; 0 when a signal ended it. Raises ServiceError and StoreError."""
    config = Config.load(vars(arguments), file=optional_path(arguments.config))
    configure_logging(config.log_format, verbose=arguments.verbose)
    raise_descriptor_limit()
    service = _daemon(config)
    gc.set_threshold(*GC_THRESHOLD)
    sys.setswitchinterval(SWITCH_SECONDS)
    return _serve(service)


def _daemon(config: Config) -> ServiceDaemon | ClusterDaemon:
    if config.store:
        module = import_extra("purgatory.service.cluster.cluster_daemon", "service")
        cluster: ClusterDaemon = module.ClusterDaemon(config, _announce)
        return cluster
    module = import_extra("purgatory.service.daemon", "service")
    service: ServiceDaemon = module.ServiceDaemon(config, _announce)
    return service


def _announce(text: str, facts: Mapping[str, object]) -> None:
    """Print the server's state; the cycle collector spares loaded data from now on.

    A look would stop the threads for a second with a million operations. So the collector looks
    while the server stands by.
    """
    if "pending" in facts:
        gc.freeze()
    else:
        gc.unfreeze()
        gc.collect()
    erase_progress()
    tell(text)
    log.info("serving" if "pending" in facts else "standby", extra=dict(facts))


def _serve(service: ServiceDaemon | ClusterDaemon) -> int:
    # A standby loads the database when it becomes active.
    with _SignalPipe() as signals, progress_shown(service.start_progress):
        service.on_end(signals.post_end)
        try:
            service.start()
            if service.url:
                tell(f"page and metrics at {service.url}")
            notify("READY=1")
            while (number := signals.wait()) == signal.SIGHUP:
                service.reload()
            if number != _ENDED:
                tell(f"{signal.Signals(number).name}: ending")
                log.info("ending", extra={"signal": signal.Signals(number).name})
            notify("STOPPING=1")
        finally:
            service.close()
    if service.failure is not None:
        raise service.failure
    return 0


class _SignalPipe:
    """The signals of the process; the first that ends the server restores the handlers.

    A Python handler runs only once the main thread is back from its system call, which a signal
    does not end if it came just before, or went to another thread. So the main thread reads the
    numbers from a pipe, which the interpreter writes within the signal (`signal.set_wakeup_fd`).
    """

    def __init__(self) -> None:
        self._handlers: dict[signal.Signals, Any] = {}

    def wait(self) -> int:
        """Return the number of the next signal, or _ENDED."""
        return os.read(self._read_fd, 1)[0]

    def post_end(self) -> None:
        """Post _ENDED: the server has ended by itself. Any thread."""
        with contextlib.suppress(OSError):  # a signal came first, and the pipe is closed
            os.write(self._write_fd, bytes([_ENDED]))

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGHUP:
            self._restore()

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def __enter__(self) -> Self:
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)
        self._wakeup_fd = signal.set_wakeup_fd(self._write_fd)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        signal.set_wakeup_fd(self._wakeup_fd)
        read_fd, write_fd = self._read_fd, self._write_fd
        self._read_fd = self._write_fd = -1
        os.close(read_fd)
        os.close(write_fd)
