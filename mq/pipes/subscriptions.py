"""Subscriptions: the topics of a socket and their subscribers.

Owned by the socket's thread. A match takes one look-up for each length of topics.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

SubscriberT = TypeVar("SubscriberT")


class Subscriptions(Generic[SubscriberT]):
    """Topics and their subscribers."""

    def __init__(self) -> None:
        self._subscribers: dict[bytes, dict[SubscriberT, int]] = {}  # how often each has subscribed
        self._lengths: dict[int, int] = {}  # of topics: how many have this length

    def __len__(self) -> int:
        return len(self._subscribers)

    def __contains__(self, topic: object) -> bool:
        return topic in self._subscribers

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._subscribers)

    def add(self, topic: bytes, subscriber: SubscriberT) -> bool:
        """Subscribe `subscriber` once more; True if the topic is new."""
        subscribers = self._subscribers.get(topic)
        if subscribers is not None:
            subscribers[subscriber] = subscribers.get(subscriber, 0) + 1
            return False
        length = len(topic)
        topics = self._lengths.get(length, 0) + 1
        # Without calls, and so without an interrupt in between; likewise below.
        self._subscribers[topic] = {subscriber: 1}
        self._lengths[length] = topics
        return True

    def remove(self, topic: bytes, subscriber: SubscriberT, completely: bool = False) -> bool:
        """Unsubscribe `subscriber` once, or completely; True if the topic has none left."""
        length = len(topic)
        subscribers = self._subscribers.get(topic)
        if subscribers is None or subscriber not in subscribers:
            return False
        subscribers[subscriber] -= 1
        if completely or subscribers[subscriber] == 0:
            del subscribers[subscriber]
        if subscribers:
            return False
        del self._subscribers[topic]
        self._lengths[length] -= 1
        if not self._lengths[length]:
            del self._lengths[length]
        return True

    def topics_of(self, subscriber: SubscriberT) -> list[bytes]:
        """Return the topics of a subscriber."""
        return [
            topic for topic, subscribers in self._subscribers.items() if subscriber in subscribers
        ]

    def has_only(self, topic: bytes, subscriber: SubscriberT) -> bool:
        """Whether `subscriber` is the only one of `topic`."""
        return list(self._subscribers.get(topic, ())) == [subscriber]

    def matches(self, data: bytes) -> bool:
        """Whether some topic is a prefix of `data`."""
        subscribers = self._subscribers
        return any(n <= len(data) and data[:n] in subscribers for n in self._lengths)

    def matching_subscribers(self, data: bytes) -> dict[SubscriberT, None]:
        """Return the subscribers of all prefixes of `data`, each once."""
        found: dict[SubscriberT, None] = {}
        for n in self._lengths:
            if n <= len(data):
                found.update(dict.fromkeys(self._subscribers.get(data[:n], ())))
        return found
