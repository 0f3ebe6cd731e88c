"""Which topics are subscribed to, and by whom.  Owned by a socket's thread.

A topic is a prefix of the messages it lets through.  Only the lengths that occur are tried, one
look-up each, however many topics there are.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

H = TypeVar("H")


class Subscriptions(Generic[H]):
    """Topics and their holders."""

    def __init__(self) -> None:
        self._holders: dict[bytes, dict[H, int]] = {}  # how often each has subscribed
        self._lengths: dict[int, int] = {}  # of topics: how many have this length

    def __len__(self) -> int:
        return len(self._holders)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._holders)

    def add(self, topic: bytes, holder: H) -> bool:
        """Subscribe `holder` once more; whether nobody held the topic before."""
        holders = self._holders.get(topic)
        if holders is not None:
            holders[holder] = holders.get(holder, 0) + 1
            return False
        self._holders[topic] = {holder: 1}
        self._lengths[len(topic)] = self._lengths.get(len(topic), 0) + 1
        return True

    def remove(self, topic: bytes, holder: H, every: bool = False) -> bool:
        """Unsubscribe `holder` once, or altogether; whether nobody holds the topic any more."""
        holders = self._holders.get(topic)
        if holders is None or holder not in holders:
            return False
        holders[holder] -= 1
        if every or holders[holder] == 0:
            del holders[holder]
        if holders:
            return False
        self._drop(topic)
        return True

    def remove_holder(self, holder: H) -> list[bytes]:
        """Forget a holder; the topics nobody holds any more."""
        held = [topic for topic, holders in self._holders.items() if holder in holders]
        return [topic for topic in held if self.remove(topic, holder, every=True)]

    def _drop(self, topic: bytes) -> None:
        del self._holders[topic]
        length = len(topic)
        self._lengths[length] -= 1
        if not self._lengths[length]:
            del self._lengths[length]

    def matches(self, data: bytes) -> bool:
        """Whether some topic is a prefix of `data`."""
        holders = self._holders
        return any(n <= len(data) and data[:n] in holders for n in self._lengths)

    def holders(self, data: bytes) -> dict[H, None]:
        """All who hold a prefix of `data`, each once."""
        found: dict[H, None] = {}
        for n in self._lengths:
            if n <= len(data):
                found.update(dict.fromkeys(self._holders.get(data[:n], ())))
        return found
