"""FairQueue and LoadBalancer: pipes in turn, whole messages. For a socket's thread."""

from enum import Enum
from typing import Final

from _purgatory_cpython.mypyc_types import i64
from mq.pipes.message import MessagePart, Part
from mq.pipes.pipe import Pipe


class PipeSet:
    """The common half: pipes, the ready pipes first in the list.

    A pipe that is not ready is swapped behind the ready ones: no message searches the list.
    """

    def __init__(self) -> None:
        self._pipes: list[Pipe] = []
        self._active: i64 = 0  # pipes[:active] are ready, as far as known
        self._current: i64 = 0  # the index of the pipe in turn
        self._more = False  # inside a message of pipes[current]
        self.last_pipe: Pipe | None = None  # of the part passed last

    def attach(self, pipe: Pipe) -> None:
        """Add a pipe, taken for ready. Repeatable."""
        if pipe not in self._pipes:
            self._pipes.append(pipe)
        self.activated(pipe)

    def activated(self, pipe: Pipe) -> None:
        """Note that a pipe is ready again."""
        if pipe in self._pipes:
            index = self._pipes.index(pipe)
            if index >= self._active:
                pipes, active = self._pipes, self._active
                pipes[index], pipes[active] = pipes[active], pipes[index]
                self._active += 1

    def terminated(self, pipe: Pipe) -> None:
        """Remove a dead pipe. Repeatable."""
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
        """Whether a message is incomplete."""
        return self._more

    def _deactivate(self, index: i64) -> None:
        self._active -= 1
        pipes, active = self._pipes, self._active
        pipes[index], pipes[active] = pipes[active], pipes[index]
        if self._current == active:  # it was moved into the gap, or was the last and is gone
            self._current = index if index < active else 0


class FairQueue(PipeSet):
    """Pipes to read from."""

    def __init__(self) -> None:
        super().__init__()
        self.at_message_start: bool = False  # whether the part returned last is a message's first

    def recv(self) -> Part | None:
        """Return the next part, or None; `mid_message` says whether another follows."""
        while self._active:
            pipe = self._pipes[self._current]
            part = pipe.read()
            if part is not None:
                # The part must not be lost: no call from here on.
                self.last_pipe = pipe
                self.at_message_start = not self._more
                self._more = more = pipe.more
                if not more:
                    self._current += 1
                    if self._current >= self._active:
                        self._current = 0
                return part
            self._deactivate_current()
        return None

    def is_next(self, pipe: Pipe) -> bool:
        """Whether `recv` would return a part of this pipe."""
        return self.has_in() and self._pipes[self._current] is pipe

    def has_in(self) -> bool:
        """Whether `recv` would return a part."""
        while self._active:
            if self._pipes[self._current].check_read():
                return True
            self._deactivate_current()
        return False

    def _deactivate_current(self) -> None:
        # Messages are flushed whole: a pipe empty in mid-message is ending, and drops the rest.
        self._more = False
        self._deactivate(self._current)


class Sent(Enum):
    """The result of sending a part."""

    OK = "accepted"
    AGAIN = "no pipe has room"
    BROKEN = "the pipe that got the parts before has gone; this message is lost"


OK: Final = Sent.OK
AGAIN: Final = Sent.AGAIN
BROKEN: Final = Sent.BROKEN


class LoadBalancer(PipeSet):
    """Pipes to write to."""

    def __init__(self) -> None:
        super().__init__()
        self._dropping = False  # inside a message of a gone pipe

    def send(self, part: Part) -> Sent:
        """Write a part to the next pipe; all parts of a message to one."""
        more = isinstance(part, MessagePart) and part.more
        if self._dropping:
            self._dropping = more
            return OK
        while self._active:
            pipe = self._pipes[self._current]
            if pipe.write(part):
                self.last_pipe = pipe
                self._more = more
                if not more:
                    pipe.flush()
                    self._current += 1
                    if self._current >= self._active:
                        self._current = 0
                return OK
            if self._more:  # the pipe took the earlier parts, so it is ending, not full
                self._dropping = more
                self._more = False
                self._deactivate(self._current)
                return BROKEN
            self._deactivate(self._current)
        return AGAIN

    def rollback(self) -> None:
        """Take back an incomplete message: the next part begins another. Repeatable."""
        if self._more:
            self._pipes[self._current].rollback()
        self._more = self._dropping = False

    @property
    def mid_message(self) -> bool:
        """Whether a message, sent or dropped, is incomplete."""
        return self._more or self._dropping

    def _on_pipe_lost(self) -> None:
        self._dropping = True

    def has_out(self) -> bool:
        """Whether `send` would accept a part."""
        if self._more or self._dropping:
            return True
        while self._active:
            if self._pipes[self._current].check_write():
                return True
            self._deactivate(self._current)
        return False
