"""The process of a command: log, signals, limit of open files, systemd."""

import contextlib
import datetime as dt
import json
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, NoReturn, TextIO

from purgatory.cli.progress import erase_progress
from purgatory.printable import printable, printable_json

INTERRUPTED: Final = 130  # 128 + SIGINT, as a shell reports it

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# The attributes of every record; others are of `extra`.
_COMMON: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as a line: time, level, logger, thread, message.

    `time` is ISO 8601, UTC. `fields`, if any, are of `extra`; `exception`, if any, is the
    traceback. Values unknown to JSON become text.
    """

    def format(self, record: logging.LogRecord) -> str:
        time = dt.datetime.fromtimestamp(record.created, dt.UTC)
        line: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        fields = {name: value for name, value in vars(record).items() if name not in _COMMON}
        if fields:
            line["fields"] = fields
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(line, default=str, ensure_ascii=False))


class TextFormatter(logging.Formatter):
    """Formats a record as a line, and its traceback as indented lines.

    So no foreign text can pass for a line of the log.
    """

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # of the library
        """See `logging.Formatter`."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return self.formatStack(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return "\n".join(f"  {printable(line)}" for line in stack_info.split("\n"))


class TerminalHandler(logging.StreamHandler[TextIO]):
    """Writes records to stderr; on a terminal each erases a line of progress."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone: no caller cares
            erase_progress(self.stream)
        super().emit(record)


def configure_logging(log_format: str, *, verbose: bool) -> None:
    """Log to stderr as "text" or "json": warnings; `verbose`: what is done, too."""
    handler = TerminalHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])


@contextlib.contextmanager
def signals_handled(
    numbers: Iterable[signal.Signals], act: Callable[[int], None], *, once: bool
) -> Iterator[None]:
    """Call `act` for signals in the block; without effect outside of the main thread.

    `once`: restore the former handlers after the first signal, not only after the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # without signals
        return
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number: int, _: object) -> None:
        if once:
            restore()
        act(number)

    for number in numbers:
        before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        restore()


def leaving_on_sigterm() -> AbstractContextManager[None]:
    """Have SIGTERM end the block by an exception, after which the block cleans up."""
    return signals_handled((signal.SIGTERM,), _leave, once=True)


def _leave(number: int) -> NoReturn:
    raise SystemExit(128 + number)  # as a shell reports a signal


def heed_sigterm() -> None:
    """Have SIGTERM end the process, before a command handles it.

    For id 1, as in a container, the kernel drops a signal without a handler.
    """
    if os.getpid() == 1 and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, _: object) -> None:
    os._exit(128 + number)  # as a shell reports a signal


def drop_output() -> None:
    """Discard buffered output: Python would fail again as it flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                os.dup2(nowhere, stream.fileno())
            except (AttributeError, ValueError):  # the stream is None or closed
                pass
    finally:
        os.close(nowhere)


def tell(text: str) -> None:
    """Print a line; a server goes on without its terminal, and without the reader of its pipe."""
    try:
        print(text, flush=True)
    except OSError:
        drop_output()


# Enough for any number of clients; some systems allow a billion.
_ENOUGH: Final = 65_536


def raise_descriptor_limit() -> None:
    """Raise the limit of open files: each connection uses a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # fewer will do
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def notify(*states: str) -> None:
    """Send lines such as `READY=1`; does nothing without a service manager."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
    ):
        sender.sendto("\n".join(states).encode(), address)
