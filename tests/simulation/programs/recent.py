"""Recent: the last things that a program has made, to do something more with one of them."""

import random
from collections import deque
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")

_KEPT: Final = 21


class Recent(Generic[_T]):
    """The last few items."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._items: deque[_T] = deque(maxlen=_KEPT)

    def add(self, item: _T) -> None:
        """Add an item, and forget the oldest."""
        self._items.append(item)

    def pick(self) -> _T | None:
        """Return any of them; None if there is none."""
        return self._chance.choice(self._items) if self._items else None
