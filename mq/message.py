"""Messages as they travel: parts in pipes, and the trackers of those sent without copying.

A part is a plain tuple, the cheapest record there is, for one is made for every part sent::

    (data, more, payload)

`data` is bytes, or a memoryview of a buffer the sender shares; `more` says that another part of the
same message follows; `payload` is None, or lives as long as anybody uses a tracked buffer.
Parts are immutable and may be read from any thread.
"""

from threading import Event
from time import monotonic
from typing import TypeAlias

from mq.errors import NotDone


class Payload:
    """Sets an event when the last reference to it is gone: nobody uses the buffer any more."""

    __slots__ = ("_event",)

    def __init__(self, event: Event) -> None:
        self._event = event

    def __del__(self) -> None:
        self._event.set()


Data: TypeAlias = bytes | memoryview
Part: TypeAlias = tuple[Data, bool, Payload | None]

#: The end of a pipe's stream, recognised by identity; no sender can make it.
DELIMITER: Part = (b"", False, Payload(Event()))

#: The empty part that ends an envelope.
BOTTOM: Part = (b"", True, None)


class MessageTracker:
    """Tells when the buffers it watches are no longer used.

    Watches events, other trackers, and anything with a `tracker` (a Frame).  From any thread.
    """

    def __init__(self, *towatch: object) -> None:
        self.events: set[Event] = set()
        self.peers: set[MessageTracker] = set()
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
        """Whether all that is watched is out of use."""
        return all(e.is_set() for e in self.events) and all(p.done for p in self.peers)

    def wait(self, timeout: float = -1) -> None:
        """Wait until `done`, at most `timeout` seconds (negative: for ever); else `NotDone`."""
        deadline = None if timeout < 0 else monotonic() + timeout
        for event in self.events:
            if not event.wait(_left(deadline)):
                raise NotDone
        for peer in self.peers:
            left = _left(deadline)
            peer.wait(-1 if left is None else left)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - monotonic())


#: The tracker of what was copied: done from the start.
FINISHED_TRACKER = MessageTracker()
