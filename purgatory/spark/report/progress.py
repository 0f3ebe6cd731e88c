"""Shows on stderr which step a report is at. Used by the thread that owns the console."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from rich.console import Console

_STARTING: Final = "starting Spark"


class ReportProgress:
    """Shows each step, in a `with` block.

    A terminal gets one line that is rewritten; a log gets a line for each step, with the seconds
    since the start.
    """

    def __init__(
        self, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._clock = clock
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._start = self._clock()
        if self._console.is_terminal:
            self._status = self._stack.enter_context(self._console.status(""))
        self.show(_STARTING)
        return self

    def show(self, step: str) -> None:
        """Show that a step begins."""
        if self._console.is_terminal:
            self._status.update(step)
        else:
            seconds = self._clock() - self._start
            self._console.print(f"{seconds:5.1f} s  {step}", markup=False, soft_wrap=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
