"""KeyEffects: when the events of a key have counted for operations, for sure.

Made when all is quiet and asked for each operation, so it looks at few events each time.
"""

import sys
from bisect import bisect_right

from tests.simulation.records import NEVER, EventRecord, OperationRecord


class KeyEffects:
    """The events of one key, in the order of their calls; each answer is known that will come."""

    def __init__(self, events: list[EventRecord]) -> None:
        sure = [each for each in events if _is_sure(each)]
        self._calls = [each.called_ns for each in sure]
        self._answers = [each.replied_ns for each in sure]
        self._held = _unmixed(events)

    def first_ns(self, operation: OperationRecord, lost_time_ns: int) -> int:
        """Return when one had counted for an operation; NEVER if that is sure of none.

        Events that were held may have ended so much earlier.
        """
        for event, replaced_ns in self._held:
            if event.called_ns >= operation.called_ns:
                break
            held_until_ns = event.called_ns + event.hold_ns - lost_time_ns
            if (
                event.replied_ns < operation.called_ns < operation.replied_ns < held_until_ns
                and operation.replied_ns < replaced_ns
            ):
                return operation.replied_ns
        later = bisect_right(self._calls, operation.replied_ns)
        return self._answers[later] if later < len(self._answers) else NEVER


def _is_sure(event: EventRecord) -> bool:
    """Tell whether an event has counted for all that waited."""
    return event.is_answered and not (event.failed or event.refused or event.limit)


def _unmixed(events: list[EventRecord]) -> list[tuple[EventRecord, int]]:
    """Return the events that were held for sure, and when another one was sent.

    That may have replaced it; so may one that was sent before and not answered by then. A failure
    replaces none.
    """
    replacing = [each for each in events if not each.failed]
    found: list[tuple[EventRecord, int]] = []
    latest_ns = NEVER  # answer to those before
    for n, event in enumerate(replacing):
        if event.hold_ns and _is_sure(event) and latest_ns < event.called_ns:
            is_last = n + 1 == len(replacing)
            found.append((event, sys.maxsize if is_last else replacing[n + 1].called_ns))
        latest_ns = max(latest_ns, event.replied_ns if event.is_answered else sys.maxsize)
    return found
