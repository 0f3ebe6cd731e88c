"""Distributor: sends every message to all pipes that match; those that are full miss it.

Who may call it: the thread of the socket it belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mq.message import MORE, Part

if TYPE_CHECKING:
    from mq.pipe import Pipe


class Distributor:
    """Outbound pipes.  The matching ones are chosen before a message, for all its parts."""

    __slots__ = ("_matching", "_more", "_pipes")

    def __init__(self) -> None:
        self._pipes: dict[Pipe, None] = {}  # an ordered set
        self._matching: dict[Pipe, None] = {}
        self._more = False

    def attach(self, pipe: Pipe) -> None:
        """Send to `pipe` too, from the next message on."""
        self._pipes[pipe] = None

    def terminated(self, pipe: Pipe) -> None:
        """Forget `pipe`."""
        self._pipes.pop(pipe, None)
        self._matching.pop(pipe, None)

    def match(self, pipes: dict[Pipe, None]) -> None:
        """Choose who gets the next message."""
        self._matching = {pipe: None for pipe in pipes if pipe in self._pipes}

    def match_all(self) -> None:
        """Choose everybody."""
        self._matching = dict(self._pipes)

    def send_to_all(self, part: Part) -> None:
        """Send `part` to every pipe with room."""
        if not self._more:
            self.match_all()
        self.send(part)

    def send(self, part: Part) -> None:
        """Send `part` to the matching pipes with room."""
        more = bool(part[1] & MORE)
        for pipe in list(self._matching):
            if not pipe.write(part):
                # Full at the first part, or ending in the middle: either way it misses all of it.
                pipe.rollback()
                del self._matching[pipe]
            elif not more:
                pipe.flush()
        self._more = more

    def full(self) -> bool:
        """Whether one of the matching pipes has no room."""
        return not all(pipe.check_write() for pipe in self._matching)
