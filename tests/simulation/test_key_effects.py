"""When the events of a key have counted for operations, beside a definition that looks at all."""

import random

from tests.simulation.key_effects import KeyEffects
from tests.simulation.records import NEVER, EventRecord, OperationRecord


def defined_first_ns(
    events: list[EventRecord], operation: OperationRecord, lost_time_ns: int
) -> int:
    """Return what `KeyEffects.first_ns` has to, by the words of its docstrings."""
    for event in events:
        if event.is_answered and not (event.failed or event.refused or event.limit):
            if event.called_ns > operation.replied_ns:
                return event.replied_ns
            if _was_held(event, operation, events, lost_time_ns):
                return operation.replied_ns
    return NEVER


def _was_held(
    event: EventRecord, operation: OperationRecord, events: list[EventRecord], lost_time_ns: int
) -> bool:
    held_until_ns = event.called_ns + event.hold_ns - lost_time_ns
    if not event.replied_ns < operation.called_ns < operation.replied_ns < held_until_ns:
        return False
    return all(
        other is event
        or other.failed
        or other.called_ns > operation.replied_ns
        or (other.is_answered and other.replied_ns < event.called_ns)
        for other in events
    )


def draw_event(chance: random.Random, called_ns: int) -> EventRecord:
    """Return an event that may be answered, held, limited, refused or a failure."""
    event = EventRecord(called_ns)
    if chance.random() < 0.9:
        event.replied_ns = called_ns + chance.randrange(5)
    event.failed = chance.random() < 0.1
    event.refused = chance.random() < 0.1
    event.limit = chance.choice((None, None, None, 1))
    event.hold_ns = chance.choice((0, 0, 8, 20))
    return event


def test_effects_are_those_of_the_definition():
    """For random events of a key and random operations, the first effect is as it is defined."""
    chance = random.Random(18)
    found: set[int] = set()
    for _ in range(3000):
        events = [draw_event(chance, at_ns) for at_ns in sorted(chance.choices(range(30), k=4))]
        operation = OperationRecord(chance.randrange(30))
        operation.replied_ns = operation.called_ns + chance.randrange(1, 5)
        lost_ns = chance.choice((0, 3))
        expected = defined_first_ns(events, operation, lost_ns)
        assert KeyEffects(events).first_ns(operation, lost_ns) == expected, (events, operation)
        found.add(expected - operation.replied_ns if expected != NEVER else NEVER)
    assert len(found) > 5
