"""Subscriptions: which pipes want which topics.

Who may call it: the thread of the socket it belongs to.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mq.pipe import Pipe


class Subscriptions:
    """Topics, each a prefix of the messages wanted.

    A look-up costs one dict access for each length a topic has, whatever the number of topics.
    """

    __slots__ = ("_by_topic", "_lengths")

    def __init__(self) -> None:
        self._by_topic: dict[bytes, dict[Pipe, None]] = {}
        self._lengths: Counter[int] = Counter()

    def add(self, topic: bytes, pipe: Pipe) -> bool:
        """Subscribe `pipe`; whether it is the first for `topic`."""
        pipes = self._by_topic.get(topic)
        if pipes is None:
            self._by_topic[topic] = {pipe: None}
            self._lengths[len(topic)] += 1
            return True
        pipes[pipe] = None
        return False

    def remove(self, topic: bytes, pipe: Pipe) -> bool:
        """Unsubscribe `pipe`; whether it was the last for `topic`."""
        pipes = self._by_topic.get(topic)
        if pipes is None or pipe not in pipes:
            return False
        del pipes[pipe]
        if pipes:
            return False
        del self._by_topic[topic]
        self._lengths[len(topic)] -= 1
        if not self._lengths[len(topic)]:
            del self._lengths[len(topic)]
        return True

    def remove_pipe(self, pipe: Pipe) -> list[bytes]:
        """Unsubscribe `pipe` from all; the topics nobody wants any more."""
        topics = [topic for topic, pipes in self._by_topic.items() if pipe in pipes]
        return [topic for topic in topics if self.remove(topic, pipe)]

    def match(self, data: bytes) -> dict[Pipe, None]:
        """Who wants a message that begins with `data`."""
        matching: dict[Pipe, None] = {}
        for length in self._lengths:
            if length <= len(data):
                matching.update(self._by_topic.get(data[:length], {}))
        return matching
