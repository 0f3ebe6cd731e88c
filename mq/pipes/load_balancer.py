"""LoadBalancer: gives messages to many pipes in turn, whole messages, to those with room.

Owned by a socket's thread.
"""

from enum import Enum
from typing import Final

from mq.pipes.message import MessagePart, Part
from mq.pipes.pipe_set import PipeSet


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
        self._dropping = False  # in the middle of a message of a pipe that has gone

    def send(self, part: Part) -> Sent:
        """Write a part to the next pipe in turn, all parts of a message to the same one."""
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
            if self._more:  # it took the parts before this one, so it is ending, not full
                self._dropping = more
                self._more = False
                self._deactivate(self._current)
                return BROKEN
            self._deactivate(self._current)
        return AGAIN

    def rollback(self) -> None:
        """Take back the parts of a message begun: the next part begins another.  Repeatable."""
        if self._more:
            self._pipes[self._current].rollback()
        self._more = self._dropping = False

    @property
    def mid_message(self) -> bool:
        """Whether a message has been begun, or is being dropped, and not completed."""
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
