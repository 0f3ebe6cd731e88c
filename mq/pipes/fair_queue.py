"""FairQueue: takes messages from many pipes in turn, one message from each.

Owned by a socket's thread.
"""

from mq.pipes.message import Part
from mq.pipes.pipe_set import PipeSet


class FairQueue(PipeSet):
    """Pipes to read from."""

    def __init__(self) -> None:
        super().__init__()
        self.at_message_start: bool = (
            False  # whether the part returned last is the first of a message
        )

    def recv(self) -> Part | None:
        """Return the next part, of the same message as the last if that has more; or None.

        `mid_message` says whether it is followed by another.
        """
        while self._active:
            pipe = self._pipes[self._current]
            part = pipe.read()
            if part is not None:
                # It has been taken, and must not be lost: no call from here on.
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

    def has_in(self) -> bool:
        """Whether `recv` would return a part."""
        while self._active:
            if self._pipes[self._current].check_read():
                return True
            self._deactivate_current()
        return False

    def _deactivate_current(self) -> None:
        # Messages are flushed whole, so a pipe that is empty in mid-message is ending on this side:
        # the rest of the message is dropped.
        self._more = False
        self._deactivate(self._current)
