"""Subscriptions: the topics of a socket and their subscribers.  Owned by the socket's thread.

A topic is a prefix of the messages it lets through.  Only the lengths that occur are tried, one
look-up each, however many topics there are.
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

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._subscribers)

    def add(self, topic: bytes, subscriber: SubscriberT) -> bool:
        """Subscribe `subscriber` once more; True if the topic is new."""
        subscribers = self._subscribers.get(topic)
        if subscribers is not None:
            subscribers[subscriber] = subscribers.get(subscriber, 0) + 1
            return False
        self._subscribers[topic] = {subscriber: 1}
        self._lengths[len(topic)] = self._lengths.get(len(topic), 0) + 1
        return True

    def remove(self, topic: bytes, subscriber: SubscriberT, completely: bool = False) -> bool:
        """Unsubscribe `subscriber` once, or completely; True if the topic has none left."""
        subscribers = self._subscribers.get(topic)
        if subscribers is None or subscriber not in subscribers:
            return False
        subscribers[subscriber] -= 1
        if completely or subscribers[subscriber] == 0:
            del subscribers[subscriber]
        if subscribers:
            return False
        self._remove_topic(topic)
        return True

    def remove_subscriber(self, subscriber: SubscriberT) -> list[bytes]:
        """Forget a subscriber; return the topics that have none left."""
        subscribed = [
            topic for topic, subscribers in self._subscribers.items() if subscriber in subscribers
        ]
        return [topic for topic in subscribed if self.remove(topic, subscriber, completely=True)]

    def _remove_topic(self, topic: bytes) -> None:
        del self._subscribers[topic]
        length = len(topic)
        self._lengths[length] -= 1
        if not self._lengths[length]:
            del self._lengths[length]

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
