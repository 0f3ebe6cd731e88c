"""Messages as they travel: parts in pipes, and trackers of parts sent without copying.

Plain bytes that end their message, as nearly all do, travel as they are; any other part is a
`MessagePart`. Parts are immutable: any thread.
"""

import sys
from threading import Event
from typing import Final, TypeAlias, final

from _purgatory_cpython.fork import FORK_COUNTER
from _purgatory_cpython.real_time import real_seconds
from mq.errors import NotDone
from mq.timeouts import check_timeout


class ReleaseNotifier:
    """Sets an event when its last reference is gone."""

    __slots__ = ("_event",)

    def __init__(self, event: Event) -> None:
        self._event = event

    def __del__(self) -> None:
        self._event.set()


Data: TypeAlias = bytes | memoryview


@final
class MessagePart:
    """A part with more than plain bytes.

    `data`: bytes, or a memoryview of a shared buffer. `more`: another part follows.
    `release_notifier`: lives while a tracked buffer is used.
    """

    __slots__ = ("data", "more", "release_notifier")

    def __init__(
        self, data: Data, more: bool, release_notifier: ReleaseNotifier | None = None
    ) -> None:
        self.data: Data = data
        self.more: bool = more
        self.release_notifier: ReleaseNotifier | None = release_notifier


Part: TypeAlias = bytes | MessagePart

#: Ends a pipe's stream. Recognised by identity, so no sender can make it.
DELIMITER: Final = MessagePart(b"", False)

#: The empty part that ends an envelope.
ENVELOPE_END: Final = MessagePart(b"", True)


def part_of(data: Data, more: bool, release_notifier: ReleaseNotifier | None = None) -> Part:
    """Return the part that carries `data`: exactly bytes, or a memoryview."""
    if more or release_notifier is not None or isinstance(data, memoryview):
        return MessagePart(data, more, release_notifier)
    return data


def more_of(part: Part) -> bool:
    """Whether another part of the same message follows.

    Inlined in the five functions that pass a message on: calls would cost 14 % of PUSH to PULL
    interpreted, 3 % compiled (instructions, callgrind).
    """
    return isinstance(part, MessagePart) and part.more


def data_of(part: Part) -> Data:
    """Return the data of a part."""
    return part.data if isinstance(part, MessagePart) else part


def bytes_of(part: Part) -> bytes:
    """Return the data of a part, as bytes."""
    data = data_of(part)
    return data if isinstance(data, bytes) else data.tobytes("A")  # in the order of the memory


class MessageTracker:
    """Tells when the watched buffers are no longer used. Any thread.

    Watches events, other trackers, and anything with a `tracker` (a Frame). Done in a forked child.
    """

    def __init__(self, *towatch: object) -> None:
        self.events: set[Event] = set()
        self.peers: set[MessageTracker] = set()
        self._forks: int = FORK_COUNTER.value
        for thing in towatch:
            self._watch(thing)

    def _watch(self, thing: object) -> None:
        if isinstance(thing, Event):
            self.events.add(thing)
            return
        if not isinstance(thing, MessageTracker):
            if not hasattr(thing, "tracker"):
                raise TypeError(f"Event, MessageTracker or Frame required, not {type(thing)}")
            thing = thing.tracker
            if not isinstance(thing, MessageTracker):
                raise ValueError("not a tracked message")  # noqa: TRY004 - pyzmq's choice
        self.peers.add(thing)

    @property
    def done(self) -> bool:
        """Whether all buffers are out of use."""
        if self._forks != FORK_COUNTER.value:
            return True
        return all(e.is_set() for e in self.events) and all(p.done for p in self.peers)

    def wait(self, timeout: float = -1) -> None:
        """Wait until `done`, at most `timeout` seconds (negative: for ever); else `NotDone`.

        Does not wait at the interpreter's exit. ValueError for NaN.
        """
        check_timeout(timeout)
        if self._forks != FORK_COUNTER.value:
            return
        if sys.is_finalizing():
            timeout = 0.0
        deadline = None if timeout < 0 else real_seconds() + timeout
        for event in self.events:
            if not event.wait(_seconds_left(deadline)):
                raise NotDone
        for peer in self.peers:
            left = _seconds_left(deadline)
            peer.wait(-1 if left is None else left)


def _seconds_left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - real_seconds())


#: The tracker of copied data: done from the start.
FINISHED_TRACKER = MessageTracker()
