"""FairQueue: receives from many pipes in turn, a whole message from each.

Who may call it: the thread of the socket it belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mq.message import MORE, Part
from mq.pipelist import PipeList

if TYPE_CHECKING:
    from mq.pipe import Pipe


class FairQueue:
    """Inbound pipes, the readable ones first.  `last` is the pipe the last part came from."""

    __slots__ = ("_current", "_list", "_more", "last")

    def __init__(self) -> None:
        self._list = PipeList()
        self._current = 0
        self._more = False  # in the middle of a message of the current pipe
        self.last: Pipe | None = None

    def attach(self, pipe: Pipe) -> None:
        """Receive from `pipe` too."""
        self._list.add(pipe)

    def activated(self, pipe: Pipe) -> None:
        """`pipe` has something to read again."""
        if pipe in self._list:
            self._list.activate(pipe)

    def terminated(self, pipe: Pipe) -> None:
        """Forget `pipe`, and what was left of a message begun."""
        pipes = self._list
        if pipe not in pipes:
            return
        if self._more and pipes.index(pipe) == self._current:
            self._more = False
        pipes.remove(pipe)
        if self._current >= pipes.active:
            self._current = 0
        if self.last is pipe:
            self.last = None

    @property
    def more(self) -> bool:
        """Whether the next part belongs to a message begun."""
        return self._more

    def recv(self) -> Part | None:
        """The next part; None when no pipe has one."""
        pipes = self._list
        while pipes.active:
            pipe = pipes.pipes[self._current]
            part = pipe.read()
            if part is not None:
                self.last = pipe
                self._more = bool(part[1] & MORE)
                if not self._more:
                    self._current = (self._current + 1) % pipes.active
                return part
            self._skip(pipe)
        return None

    def has_in(self) -> bool:
        """Whether a part can be received."""
        pipes = self._list
        while pipes.active:
            pipe = pipes.pipes[self._current]
            if pipe.check_read():
                return True
            self._skip(pipe)
        return False

    def _skip(self, pipe: Pipe) -> None:
        # A message is flushed whole, so a pipe that fails in the middle of one was disconnected by
        # ourselves: the rest will never come, and the next part read begins another message.
        self._more = False
        self._list.deactivate(pipe)
        if self._current >= self._list.active:
            self._current = 0
