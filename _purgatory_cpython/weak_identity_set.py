"""WeakIdentitySet: refers weakly to objects, and compares none of them. Any thread.

A `WeakSet` hashes and compares its members: a subclass that defines `__eq__` and no `__hash__`
could not be one.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class WeakIdentitySet(Generic[T]):
    """A set of objects that are alive, by identity."""

    def __init__(self) -> None:
        self._by_id: WeakValueDictionary[int, T] = WeakValueDictionary()

    def add(self, member: T) -> None:
        """Add an object, without keeping it alive."""
        self._by_id[id(member)] = member

    def discard(self, member: T) -> None:
        """Remove an object that may be one."""
        self._by_id.pop(id(member), None)

    def clear(self) -> None:
        """Remove all."""
        self._by_id.clear()

    def __iter__(self) -> Iterator[T]:
        """Iterate over the present members; others may come and go meanwhile."""
        found = [reference() for reference in self._by_id.valuerefs()]
        return iter([member for member in found if member is not None])
