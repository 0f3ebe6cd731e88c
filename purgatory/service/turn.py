"""Turn: what one group of requests and expirations changes, to be committed or undone as one."""

from dataclasses import dataclass, field

from purgatory.batches import Batch
from purgatory.service.operation import Ended, Waiting
from purgatory.store import Changes


@dataclass(slots=True)
class Turn:
    """Filled by the room. ``now_ms``: the moment at which all of it happens."""

    now_ms: int
    changes: Changes = field(default_factory=Changes)
    batch: Batch | None = None  # the last of them that is to be written
    submitted: list[Waiting] = field(default_factory=list)
    counted: list[tuple[Waiting, str]] = field(default_factory=list)
    ended: list[tuple[Waiting, Ended]] = field(default_factory=list)
    forgotten: list[tuple[int, Ended]] = field(default_factory=list)
