"""PipeSet: pipes of which those that are ready stand first in the list.

The common half of `fair_queue` and `load_balancer`.  Owned by a socket's thread.  A pipe that is
not ready is swapped behind the ready ones, and swapped back when it is activated, so that nothing
is searched in the list per message, only when a pipe is activated or ends.
"""

from _purgatory_cpython.mypyc_types import i64
from mq.pipes.pipe import Pipe


class PipeSet:
    """Pipes used in turn (round-robin)."""

    def __init__(self) -> None:
        self._pipes: list[Pipe] = []
        self._active: i64 = 0  # pipes[:active] are ready, as far as we know
        self._current: i64 = 0  # the index of the pipe in turn
        self._more = False  # inside a message of pipes[current]
        self.last_pipe: Pipe | None = None  # the pipe of the part passed last

    def attach(self, pipe: Pipe) -> None:
        """Add a pipe; it counts as ready until it proves not to be.  Repeatable."""
        if pipe not in self._pipes:
            self._pipes.append(pipe)
        self.activated(pipe)

    def activated(self, pipe: Pipe) -> None:
        """Note that a pipe is ready again."""
        if pipe in self._pipes:
            index = self._pipes.index(pipe)
            if index >= self._active:
                self._activate(index)

    def terminated(self, pipe: Pipe) -> None:
        """Remove a dead pipe.  Repeatable."""
        if pipe not in self._pipes:
            return
        if pipe is self.last_pipe:
            self.last_pipe = None
        index = self._pipes.index(pipe)
        if index < self._active:
            if index == self._current and self._more:
                self._on_pipe_lost()
                self._more = False
            self._deactivate(index)
            index = self._active
        self._pipes.pop(index)

    def _on_pipe_lost(self) -> None:
        """Note that the current pipe died inside a message."""

    @property
    def mid_message(self) -> bool:
        """Whether a message has been begun and not completed."""
        return self._more

    def _activate(self, index: i64) -> None:
        pipes, active = self._pipes, self._active
        pipes[index], pipes[active] = pipes[active], pipes[index]
        self._active += 1

    def _deactivate(self, index: i64) -> None:
        self._active -= 1
        pipes, active = self._pipes, self._active
        pipes[index], pipes[active] = pipes[active], pipes[index]
        if self._current == active:  # it was moved into the gap, or was the last and is gone
            self._current = index if index < active else 0
