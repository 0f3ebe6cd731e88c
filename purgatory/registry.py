"""The live purgatories of this process. Any thread."""

from dataclasses import dataclass
from typing import Protocol

from _purgatory_cpython.weak_identity_set import WeakIdentitySet
from timingwheel import Timer


@dataclass(frozen=True, slots=True)
class PurgatoryStats:
    """A purgatory's numbers at one moment.

    `pending`: operations that wait. `watch_entries`: pairs of a pending operation and a key it
    watches. `watched_keys`: keys with such an operation. `held`: events that count for later
    operations, too. `completed`, `failed`, `expired`, `cancelled`: operations that ended so.
    `mailbox_commands`: commands posted to the loop. `mailbox_depth`: commands not yet received.
    """

    name: str
    pending: int
    watch_entries: int
    watched_keys: int
    held: int
    completed: int
    failed: int
    expired: int
    cancelled: int
    mailbox_commands: int
    mailbox_depth: int


class ObservablePurgatory(Protocol):
    """The part of a purgatory that the registry and the metrics read."""

    @property
    def name(self) -> str:
        """The label of its metrics."""

    @property
    def timer(self) -> Timer:
        """The timer, which several purgatories may share."""

    def stats(self) -> PurgatoryStats:
        """The present figures."""

    def _is_live(self) -> bool:
        """Whether it is neither closed nor a forked child's copy."""


_purgatories: "WeakIdentitySet[ObservablePurgatory]" = WeakIdentitySet()


def add_purgatory(purgatory: ObservablePurgatory) -> None:
    """Add a purgatory, without keeping it alive."""
    _purgatories.add(purgatory)


def live_purgatories() -> list[ObservablePurgatory]:
    """Return all referenced, open purgatories of the process."""
    return [purgatory for purgatory in _purgatories if purgatory._is_live()]
