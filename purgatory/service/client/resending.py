"""Resending: which unanswered messages are sent again on a new connection, and how often.

If the connection is lost again and again, the messages are sent one by one: so the message that
makes a server crash is found, and is not repeated for ever. Used with the session's `Turn`.
"""

from collections import deque
from typing import Final

from purgatory.service.client.calls import CallBatch

#: So often a message is sent at most, if the connection is lost each time before its answer.
MAX_SENDINGS: Final = 5
# After so many losses, send each message again alone.
_ALONE_AFTER: Final = 2


class Resending:
    """For the messages of a session: by sequence number, in order, with their calls."""

    def __init__(self, unanswered: dict[int, tuple[bytes, CallBatch]]) -> None:
        self._unanswered = unanswered
        # How often the connection was lost after they were sent.
        self._losses: dict[int, int] = {}
        self._waiting: deque[int] = deque()  # waiting to be sent again alone
        self._alone = 0  # the last message of these sent

    @property
    def is_under_way(self) -> bool:
        """Whether messages are sent again one by one, while new messages wait."""
        return bool(self._waiting) or self._alone in self._unanswered

    def take_abandoned(self) -> list[CallBatch]:
        """Note that the connection was lost; return the calls that are not sent again, removed."""
        waiting, before, self._losses = set(self._waiting), self._losses, {}
        for seq in self._unanswered:
            self._losses[seq] = before.get(seq, 0) + (0 if seq in waiting else 1)
        abandoned = [seq for seq, count in self._losses.items() if count >= MAX_SENDINGS]
        return [self._unanswered.pop(seq)[1] for seq in abandoned]

    def begin(self) -> list[bytes]:
        """Return what is to be sent first on a new connection: all, or the first alone."""
        self._waiting.clear()
        self._alone = 0
        if all(self._losses.get(seq, 0) < _ALONE_AFTER for seq in self._unanswered):
            return [frame for frame, _ in self._unanswered.values()]
        self._waiting.extend(self._unanswered)
        return self.next()

    def next(self) -> list[bytes]:
        """Return the next message, once the one before is answered."""
        while self._waiting and self._alone not in self._unanswered:
            self._alone = self._waiting.popleft()
            if self._alone in self._unanswered:
                return [self._unanswered[self._alone][0]]
        return []
