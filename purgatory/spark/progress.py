"""Shows on stderr what a command is doing.

The main thread makes and closes it; one thread at a time calls `show`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from rich.text import Text

from purgatory.console import OutputConsole
from purgatory.printable import printable

if TYPE_CHECKING:
    from rich.console import Console


class Progress:
    """Shows each step, in a `with` block that begins with the step `first`.

    A terminal gets one rewritten line, a log a line for each step. With a `clock`, lines of a log
    begin with the seconds since the start.
    """

    def __init__(
        self, first: str, console: Console | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        self._first = first
        self._console = console or OutputConsole(stderr=True, highlight=False)
        self._clock = clock
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status = self._stack.enter_context(self._console.status(self._first))
        if self._clock is not None:
            self._start = self._clock()
            self.show(self._first)
        return self

    def show(self, step: object) -> None:
        """Show the beginning or the result of a step."""
        shown = printable(str(step))
        if self._console.is_terminal:
            self._status.update(Text(shown))  # which rich does not parse for markup
        else:
            time = "" if self._clock is None else f"{self._clock() - self._start:5.1f} s  "
            self._console.print(f"{time}{shown}", markup=False, soft_wrap=True)

    def __exit__(self, *error: object) -> None:
        self._stack.close()
