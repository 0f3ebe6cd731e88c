"""LoadBalancer: sends to many pipes in turn, a whole message to each.

Who may call it: the thread of the socket it belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mq.message import MORE, Part
from mq.pipelist import PipeList

if TYPE_CHECKING:
    from mq.pipe import Pipe


class LoadBalancer:
    """Outbound pipes, the writable ones first.  `last` is the pipe the last part went to."""

    __slots__ = ("_current", "_dropping", "_list", "_more", "last")

    def __init__(self) -> None:
        self._list = PipeList()
        self._current = 0
        self._more = False  # in the middle of a message to the current pipe
        self._dropping = False  # the pipe of the message under way is gone: drop the rest of it
        self.last: Pipe | None = None

    def attach(self, pipe: Pipe) -> None:
        """Send to `pipe` too."""
        self._list.add(pipe)

    def activated(self, pipe: Pipe) -> None:
        """`pipe` has room again."""
        if pipe in self._list:
            self._list.activate(pipe)

    def terminated(self, pipe: Pipe) -> None:
        """Forget `pipe`; the rest of a message begun to it is dropped."""
        pipes = self._list
        if pipe not in pipes:
            return
        if self._more and pipes.index(pipe) == self._current:
            self._dropping = True
        pipes.remove(pipe)
        if self._current >= pipes.active:
            self._current = 0
        if self.last is pipe:
            self.last = None

    def send(self, part: Part) -> bool:
        """Send `part`; False when no pipe has room."""
        more = bool(part[1] & MORE)
        if self._dropping:
            self._dropping = self._more = more
            return True
        pipes = self._list
        while pipes.active:
            pipe = pipes.pipes[self._current]
            if pipe.write(part):
                self._sent(pipe, more)
                return True
            pipes.deactivate(pipe)
            if self._current >= pipes.active:
                self._current = 0
            if self._more:
                # The pipe ends; what was written of this message is taken back, the rest dropped.
                pipe.rollback()
                self._dropping = self._more = more
                return True
        return False

    def _sent(self, pipe: Pipe, more: bool) -> None:
        self._more = more
        self.last = pipe
        if not more:
            pipe.flush()
            self._current = (self._current + 1) % self._list.active

    def has_out(self) -> bool:
        """Whether a part can be sent."""
        if self._more:
            return True
        pipes = self._list
        while pipes.active:
            pipe = pipes.pipes[self._current]
            if pipe.check_write():
                return True
            pipes.deactivate(pipe)
            if self._current >= pipes.active:
                self._current = 0
        return False
