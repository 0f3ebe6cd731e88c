"""The purgatories of this process that are alive, without keeping them so. Any thread."""

import weakref
from typing import Protocol

from purgatory.stats import PurgatoryStats
from timingwheel import Timer


class ObservablePurgatory(Protocol):
    """What the registry and the metrics read of a purgatory."""

    @property
    def name(self) -> str:
        """Label of its metrics."""

    @property
    def timer(self) -> Timer:
        """Its timer, which several purgatories may share."""

    def stats(self) -> PurgatoryStats:
        """The figures of this moment."""

    def _is_live(self) -> bool:
        """Whether it is neither closed nor a forked child's copy of its parent's."""


# By id, because a subclass may define __eq__ and __hash__ as it likes.
_purgatories: "weakref.WeakValueDictionary[int, ObservablePurgatory]" = (
    weakref.WeakValueDictionary()
)


def add_purgatory(purgatory: ObservablePurgatory) -> None:
    """Make a purgatory known to `live_purgatories`, which does not keep it alive."""
    _purgatories[id(purgatory)] = purgatory


def live_purgatories() -> list[ObservablePurgatory]:
    """Return all purgatories of this process that are referenced and not closed."""
    # A list first: other threads add and drop purgatories meanwhile.
    found = [reference() for reference in _purgatories.valuerefs()]
    return [purgatory for purgatory in found if purgatory is not None and purgatory._is_live()]
