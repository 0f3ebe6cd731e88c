"""Distributor: gives each message to all of a set of pipes. For a socket's thread."""

from collections.abc import Iterable

from mq.pipes.message import Part, more_of
from mq.pipes.pipe import Pipe


class Distributor:
    """Pipes to publish to; a full pipe misses messages."""

    def __init__(self) -> None:
        self.pipes: list[Pipe] = []
        self._full: set[Pipe] = set()  # most of the time empty
        self._receivers: list[Pipe] | None = None  # of the message begun

    def attach(self, pipe: Pipe) -> None:
        """Add a pipe; it gets messages begun from now on. Repeatable."""
        if pipe not in self.pipes:
            self.pipes.append(pipe)

    def activated(self, pipe: Pipe) -> None:
        """Note that a full pipe has room again."""
        self._full.discard(pipe)

    def terminated(self, pipe: Pipe) -> None:
        """Remove a dead pipe. Repeatable."""
        if pipe in self.pipes:
            self.pipes.remove(pipe)
        self._full.discard(pipe)
        if self._receivers is not None and pipe in self._receivers:
            self._receivers.remove(pipe)

    def send(self, part: Part, chosen: Iterable[Pipe]) -> None:
        """Write a part to all of `chosen`; later parts go where the first went."""
        receivers = self._receivers
        if receivers is None:
            receivers = [pipe for pipe in chosen if pipe not in self._full]
        try:
            self._receivers = self._write(part, receivers)
        except BaseException:  # an interrupt: some pipes lack the part
            self.rollback()
            raise

    def _write(self, part: Part, receivers: list[Pipe]) -> list[Pipe] | None:
        more = more_of(part)
        taken = []
        for pipe in receivers:
            if pipe.write(part):
                taken.append(pipe)
                if not more:
                    pipe.flush()
            else:
                self._full.add(pipe)
        return taken if more else None

    def rollback(self) -> None:
        """Take back an incomplete message: the next part begins another. Repeatable."""
        for pipe in self.pipes:
            pipe.rollback()
        self._receivers = None

    @property
    def mid_message(self) -> bool:
        """Whether a message is incomplete."""
        return self._receivers is not None
