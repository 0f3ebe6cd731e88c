"""Shows the progress of a long command, from a thread of its own."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from _purgatory_cpython.threads import InterruptibleThread
from purgatory.printable import printable

# Seconds until the first line, and between two: short commands show none.
_EVERY_S: Final = 0.5
_ERASE: Final = "\r\x1b[K"


@contextmanager
def progress_shown(
    text: Callable[[], str], stream: TextIO | None = None, every_s: float = _EVERY_S
) -> Iterator[None]:
    """Show `text()` every `every_s` seconds in the block, if `stream` (stderr) is a terminal.

    Another thread calls `text`; an empty text shows no line.
    """
    terminal = _terminal(stream)
    if terminal is None:
        yield
        return
    ended = threading.Event()
    thread = InterruptibleThread(
        target=_show, args=(text, terminal, ended, every_s), name="purgatory-progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(text: Callable[[], str], stream: TextIO, ended: threading.Event, every_s: float) -> None:
    shown = ""
    while not ended.wait(every_s):
        before, shown = shown, printable(text())
        if before or shown:
            stream.write(f"{_ERASE}{shown}")
            stream.flush()
    if shown:
        _erase(stream)


def erase_progress(stream: TextIO | None = None) -> None:
    """Erase a line of progress before other output, on a terminal."""
    terminal = _terminal(stream)
    if terminal is not None:
        _erase(terminal)


def _terminal(stream: TextIO | None) -> TextIO | None:
    stream = sys.stderr if stream is None else stream
    return stream if stream is not None and stream.isatty() else None


def _erase(terminal: TextIO) -> None:
    terminal.write(_ERASE)
    terminal.flush()


def bytes_below(*paths: Path) -> int:
    """Return the size of files and directories; missing ones count 0."""
    return sum(map(_size, paths))


def _size(path: Path) -> int:
    if path.is_file():
        return _size_of_file(path)
    found = (Path(top, name) for top, _, names in os.walk(path) for name in names)
    return sum(map(_size_of_file, found))


def _size_of_file(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # renamed or deleted meanwhile
        return 0
