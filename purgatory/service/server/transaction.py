"""What one group of requests and expirations changes, to be committed or undone as one."""

from typing import TYPE_CHECKING

from purgatory.service.store.store import Changes

if TYPE_CHECKING:
    from purgatory.service.server.operation import OutcomeRecord, PendingOperation
    from purgatory.service.store.operation_batches import OperationBatch


class Transaction:
    """Filled by the room. ``now_ms``: the moment at which all of it happens."""

    __slots__ = ("batch", "changes", "deleted", "ended", "now_ms", "progressed", "submitted")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.changes = Changes()
        self.batch: OperationBatch | None = None  # the last of them that is to be written
        self.submitted: list[PendingOperation] = []
        self.progressed: list[tuple[PendingOperation, str]] = []
        self.ended: list[tuple[PendingOperation, OutcomeRecord]] = []
        self.deleted: list[tuple[int, OutcomeRecord]] = []


class TransactionClock:
    """The clock of the room's timer: it stands still in a turn, and is moved between them."""

    __slots__ = ("now_ms",)

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms  # Unix; never goes back

    def __call__(self) -> int:
        """The present reading in milliseconds."""
        return self.now_ms
