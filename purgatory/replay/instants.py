"""Instants: the rows of a trace that have one time, from all its tables.

Used by the engine alone, in its thread.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from purgatory.trace import Extension, KeyEvent, Operation

# After any time of a trace.
_END: Final = 2**64


class Instant(NamedTuple):
    """One time, and the rows that have it, in their order."""

    at_ms: int
    operations: list[Operation]
    extensions: list[Extension]
    events: list[KeyEvent]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.operations) + len(self.extensions) + len(self.events)

    def has_plain_events(self) -> bool:
        """Tell whether no event is held or failed."""
        for event in self.events:  # noqa: SIM110 - `any` takes longer than all else
            if event.hold_ms or event.failed:
                return False
        return True


def instants(
    operations: Iterator[Operation], extensions: Iterator[Extension], events: Iterator[KeyEvent]
) -> Iterator[Instant]:
    """Merge tables that are in order of time."""
    row, extension, event = next(operations, None), next(extensions, None), next(events, None)
    while True:
        at_ms = _END if row is None else row.submitted_ms
        if extension is not None and extension.at_ms < at_ms:
            at_ms = extension.at_ms
        if event is not None and event.at_ms < at_ms:
            at_ms = event.at_ms
        if at_ms == _END:
            return
        instant = Instant(at_ms, [], [], [])
        while row is not None and row.submitted_ms == at_ms:
            instant.operations.append(row)
            row = next(operations, None)
        while extension is not None and extension.at_ms == at_ms:
            instant.extensions.append(extension)
            extension = next(extensions, None)
        while event is not None and event.at_ms == at_ms:
            instant.events.append(event)
            event = next(events, None)
        yield instant
