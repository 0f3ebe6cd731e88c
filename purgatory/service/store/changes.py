"""Changes: what one commit of the store writes."""

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Final

from purgatory.service.store.operation_batches import OperationBatch


@dataclass(slots=True)
class Changes:
    """What one commit writes; rows are flat lists of values, one row after the other.

    Blobs should be bytearrays, and NULL an empty text: for bytes and None, Python's sqlite3 looks
    for an adapter each time, which takes longer than the rest of the row.
    """

    operations: list[OperationBatch] = field(default_factory=list)
    progress: list[Any] = field(default_factory=list)
    outcomes: list[Any] = field(default_factory=list)
    deadlines: list[Any] = field(default_factory=list)  # of operations that were extended
    held: list[Any] = field(default_factory=list)
    jobs: list[Any] = field(default_factory=list)
    replies: list[Any] = field(default_factory=list)
    queued_events: list[Any] = field(default_factory=list)  # for the journal
    queued_extensions: list[Any] = field(default_factory=list)
    delete_operations: list[int] = field(default_factory=list)  # numbers
    delete_outcomes: list[int] = field(default_factory=list)  # seqs
    delete_held: list[str] = field(default_factory=list)  # keys
    delete_replies: list[tuple[str, int]] = field(default_factory=list)  # session and seq
    #: Up to these numbers events and extensions are deleted, since the journal has them.
    delete_queued: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return any(_values(self))


_values: Final = attrgetter(*[each.name for each in fields(Changes)])
