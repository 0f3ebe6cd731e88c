"""PipeList: pipes of which the first few are active; moving one in or out is a swap.

Who may call it: the thread of the socket it belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mq.pipe import Pipe


class PipeList:
    """A list of pipes; the first `active` of them can be used now."""

    __slots__ = ("_index", "active", "pipes")

    def __init__(self) -> None:
        self.pipes: list[Pipe] = []
        self._index: dict[Pipe, int] = {}
        self.active = 0

    def add(self, pipe: Pipe) -> None:
        """Add `pipe`, active."""
        self._index[pipe] = len(self.pipes)
        self.pipes.append(pipe)
        self.activate(pipe)

    def activate(self, pipe: Pipe) -> None:
        """Move `pipe` among the active ones."""
        index = self._index[pipe]
        if index >= self.active:
            self._swap(index, self.active)
            self.active += 1

    def deactivate(self, pipe: Pipe) -> None:
        """Move `pipe` among the inactive ones."""
        index = self._index[pipe]
        if index < self.active:
            self.active -= 1
            self._swap(index, self.active)

    def remove(self, pipe: Pipe) -> None:
        """Forget `pipe`."""
        self.deactivate(pipe)
        self._swap(self._index[pipe], len(self.pipes) - 1)
        self.pipes.pop()
        del self._index[pipe]

    def index(self, pipe: Pipe) -> int:
        """Where `pipe` is now."""
        return self._index[pipe]

    def _swap(self, i: int, j: int) -> None:
        pipes = self.pipes
        pipes[i], pipes[j] = pipes[j], pipes[i]
        self._index[pipes[i]] = i
        self._index[pipes[j]] = j

    def __contains__(self, pipe: object) -> bool:
        return pipe in self._index

    def __len__(self) -> int:
        return len(self.pipes)
