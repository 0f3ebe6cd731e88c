"""Descriptors: readable descriptors of a process, and the threads sleeping on them."""

from collections.abc import Callable

Wake = Callable[[], None]


class Descriptors:
    """The descriptors of a process."""

    def __init__(self) -> None:
        self._last = 2
        self._readable: set[int] = set()  # never iterated, as it is unordered
        self._watchers: dict[int, Wake] = {}
        # The set's own methods, as each use of a socket calls them.
        #: Makes a descriptor not readable.
        self.clear: Callable[[int], None] = self._readable.discard
        #: Tells whether a descriptor is readable.
        self.is_readable: Callable[[int], bool] = self._readable.__contains__

    def new(self) -> int:
        """Return the number of a new descriptor."""
        self._last += 1
        return self._last

    def watch(self, descriptor: int, wake: Wake) -> None:
        """Call `wake` whenever a descriptor becomes readable."""
        self._watchers[descriptor] = wake
        if descriptor in self._readable:
            wake()

    def unwatch(self, descriptor: int) -> None:
        """Take back `watch`."""
        self._watchers.pop(descriptor, None)

    def signal(self, descriptor: int) -> None:
        """Make a descriptor readable."""
        self._readable.add(descriptor)
        wake = self._watchers.get(descriptor)
        if wake is not None:
            wake()
