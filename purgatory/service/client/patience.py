"""Patience: ends the futures of overdue operations while no server answers.

`look` is for the I/O thread, the rest for any.
"""

from collections.abc import Callable
from typing import Final

from purgatory.service.client.calls import reject
from purgatory.service.client.futures import ServiceFuture
from purgatory.service.errors import RequestTimeout

# Least seconds between two looks.
_SPACING_S: Final = 0.1


class Patience:
    """Watches `futures`, by operation id, of a client that waits `seconds` for an answer."""

    def __init__(
        self, futures: dict[str, ServiceFuture], seconds: float, clock: Callable[[], float]
    ) -> None:
        self._futures = futures
        self.seconds: float = seconds
        self._clock = clock
        #: When to look again; None: a server answers.
        self.next_look_at: float | None = None

    def give_up_at(self, timeout_ms: int) -> float:
        """Return when an operation is overdue: after its timeout and the client's."""
        return self._clock() + timeout_ms / 1000 + self.seconds

    def extend(self, op_id: str, timeout_ms: int) -> None:
        """Note that an operation may end later."""
        future = self._futures.get(op_id)
        if future is not None:
            future.give_up_at = max(future.give_up_at, self.give_up_at(timeout_ms))

    def look(self, silent_since: float | None) -> None:
        """End overdue futures if the server has been silent for `seconds`."""
        if silent_since is None or not self._futures:
            self.next_look_at = None
            return
        now, at = self._clock(), silent_since + self.seconds
        if now < at:
            self.next_look_at = at
        elif self.next_look_at is None or now >= self.next_look_at:
            self._end_overdue(now, silent_since)

    def _end_overdue(self, now: float, silent_since: float) -> None:
        earliest = now + self.seconds  # no new future is overdue before
        for op_id, future in self._futures.copy().items():
            if future.give_up_at > now:
                earliest = min(earliest, future.give_up_at)
            elif self._futures.pop(op_id, None) is not None:
                seconds = now - silent_since
                text = f"operation {op_id!r}: no server has answered for {seconds:.3g} s"
                reject(future, RequestTimeout(text))
        self.next_look_at = max(earliest, now + _SPACING_S)
