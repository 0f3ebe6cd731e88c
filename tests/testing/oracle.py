"""The oracle: resolves a trace so simply that it is obviously right.

Engines (replay, Spark) are tested against `resolve`; `traces` makes small traces of corner cases.
Both work on the rows of `purgatory.trace`.

Within one instant submissions come first, then key events, then expirations. Operations do not
influence one another, so each is resolved alone: if it was submitted at s with timeout d, only
events with s <= t <= s + d count. It is completed by the n-th distinct of its keys that has such an
event, at the time of that key's first one; without an n-th it expires at s + d. Events of one
instant count in the order of the file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hypothesis import strategies as st

from purgatory.trace import COMPLETED, EXPIRED, KeyEvent, Operation, Outcome


def resolve(operations: Iterable[Operation], events: Iterable[KeyEvent]) -> list[Outcome]:
    """Return the outcome of each operation, in the order of the operations.

    The lists need not be in time order; events of one instant count in the order of the list.
    `lateness_ms` is 0, as in virtual time.
    """
    events_of: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, event in enumerate(events):
        events_of[event.key].append((event.at_ms, place))
    return [_outcome(operation, events_of) for operation in operations]


def _outcome(operation: Operation, events_of: dict[str, list[tuple[int, int]]]) -> Outcome:
    start, end = operation.submitted_ms, operation.submitted_ms + operation.timeout_ms
    firsts = []
    for key in set(operation.keys):
        in_window = [(at, place) for at, place in events_of.get(key, ()) if start <= at <= end]
        if in_window:
            at, place = min(in_window)
            firsts.append((at, place, key))
    firsts.sort()
    if len(firsts) < operation.need:
        return _ended(operation, EXPIRED, end, None)
    at, _, key = firsts[operation.need - 1]
    return _ended(operation, COMPLETED, at, key)


def _ended(operation: Operation, outcome: str, at_ms: int, by_key: str | None) -> Outcome:
    start, end = operation.submitted_ms, operation.submitted_ms + operation.timeout_ms
    return Outcome(
        op_id=operation.op_id,
        kind=operation.kind,
        outcome=outcome,
        at_ms=at_ms,
        by_key=by_key,
        submitted_ms=start,
        deadline_ms=end,
        waited_ms=at_ms - start,
        lateness_ms=0,
    )


@st.composite
def traces(
    draw: st.DrawFn, *, start_ms: int = 0, in_order: bool = True
) -> tuple[list[Operation], list[KeyEvent]]:
    """Draw a small trace of corner cases: operations and events.

    Few instants and few keys, so ties, shared and reused keys, events before any submission,
    repeated events, timeouts of 0 and deadlines that meet events are the rule. A few times are far
    away, where wheels overflow. Times begin at `start_ms`; with `in_order` both lists are in time
    order (equal times in any order), else shuffled. The ids are distinct, in order of drawing.
    """
    keys = st.sampled_from("abcd")
    instants = st.integers(0, 8) | st.sampled_from((19, 20, 21, 399, 400, 401, 8_000, 100_000))
    operations = [
        draw(_operations(f"op-{number}", keys, instants, start_ms))
        for number in range(draw(st.integers(0, 8)))
    ]
    event = st.builds(KeyEvent, keys, instants.map(lambda at: start_ms + at))
    events = draw(st.lists(event, max_size=16))
    if in_order:
        operations.sort(key=lambda operation: operation.submitted_ms)
        events.sort(key=lambda event: event.at_ms)
    return operations, events


@st.composite
def _operations(
    draw: st.DrawFn,
    op_id: str,
    keys: st.SearchStrategy[str],
    instants: st.SearchStrategy[int],
    start_ms: int,
) -> Operation:
    watched = tuple(draw(st.lists(keys, min_size=1, max_size=5)))  # a key may be there twice
    return Operation(
        op_id=op_id,
        kind=draw(st.sampled_from(("", "x", "y"))),
        submitted_ms=start_ms + draw(instants),
        timeout_ms=draw(st.just(0) | instants),
        keys=watched,
        need=draw(st.integers(1, len(set(watched)))),
    )
