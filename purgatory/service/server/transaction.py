"""Turn: what one group of requests and expirations changes, to be committed or undone as one."""

from typing import TYPE_CHECKING

from purgatory.service.store.store import Changes

if TYPE_CHECKING:
    from purgatory.service.server.operation import Ended, Waiting
    from purgatory.service.store.operation_batches import Batch


class Turn:
    """Filled by the room. ``now_ms``: the moment at which all of it happens."""

    __slots__ = ("batch", "changes", "counted", "ended", "forgotten", "now_ms", "submitted")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.changes = Changes()
        self.batch: Batch | None = None  # the last of them that is to be written
        self.submitted: list[Waiting] = []
        self.counted: list[tuple[Waiting, str]] = []
        self.ended: list[tuple[Waiting, Ended]] = []
        self.forgotten: list[tuple[int, Ended]] = []


class TurnClock:
    """The clock of the room's timer: it stands still in a turn, and is moved between them."""

    __slots__ = ("now_ms",)

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms  # Unix; never goes back

    def __call__(self) -> int:
        """The present reading in milliseconds."""
        return self.now_ms
