"""Keyboard: single keys from the terminal, without Enter. Called from the main thread."""

from __future__ import annotations

import os
import select
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

if TYPE_CHECKING or os.name == "posix":
    import termios
    import tty


class Keyboard:
    """The keys of `stream` (stdin), while the block lasts; there are none without a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdin if stream is None else stream
        #: Whether there are keys.
        self.is_there: bool = os.name == "posix" and bool(self._stream and self._stream.isatty())
        self._before: list[Any] = []
        self._never = threading.Event()  # KeyboardInterrupt ends a wait for it

    def __enter__(self) -> Self:
        if self.is_there:
            self._before = termios.tcgetattr(self._stream)
            tty.setcbreak(self._stream)
        return self

    def wait(self, seconds: float) -> str:
        """Return the next key; empty after so many seconds."""
        if not self.is_there:
            self._never.wait(seconds)
            return ""
        ready, _, _ = select.select([self._stream], [], [], seconds)
        found = os.read(self._stream.fileno(), 1) if ready else b""
        if ready and not found:  # the terminal is gone
            self.is_there = False
        return found.decode("latin-1")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before:
            termios.tcsetattr(self._stream, termios.TCSADRAIN, self._before)
