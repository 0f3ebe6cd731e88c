"""The oracle: resolves a trace so simply that it is obviously right.

Engines (replay, Spark) are tested against `resolve`; `traces` makes small traces of corner cases.
Both work on the rows of `purgatory.trace`.

Within one instant submissions come first, then extensions, then key events, then expirations.
Operations do not influence one another, so each is resolved alone: if it was submitted at s and its
deadline is d, only events with s <= t <= d count. It is completed by the n-th distinct of its keys
that has such an event, at the time of that key's first one; without an n-th it expires at d. Events
of one instant count in the order of the file.

A key's last completion before s that is held until s or longer counts at s, before all events of
that instant; several such keys count in the order in which their events came. If a key's first
event is a failure, that one fails the operation. An extension that comes at or before the deadline
sets a new one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import strategies as st

from purgatory.trace import COMPLETED, EXPIRED, FAILED, Extension, KeyEvent, Operation, Outcome


class FullTrace(NamedTuple):
    """A trace with all its tables."""

    operations: list[Operation]
    events: list[KeyEvent]
    extensions: list[Extension]


class _First(NamedTuple):
    """The event of a key that counts for an operation; sorted by when it counts.

    `came_ms` is earlier than `at_ms` for an event that was held until the submission.
    """

    at_ms: int
    came_ms: int
    place: int
    key: str
    failed: bool


def resolve(
    operations: Iterable[Operation],
    events: Iterable[KeyEvent],
    extensions: Iterable[Extension] = (),
) -> list[Outcome]:
    """Return the outcome of each operation, in the order of the operations.

    The lists need not be in time order; rows of one instant count in the order of the list.
    `lateness_ms` is 0, as in virtual time.
    """
    events_of: dict[str, list[tuple[int, KeyEvent]]] = defaultdict(list)
    for place, event in enumerate(events):
        events_of[event.key].append((place, event))
    extensions_of: dict[str, list[Extension]] = defaultdict(list)
    for extension in extensions:
        extensions_of[extension.op_id].append(extension)
    return [_outcome(row, events_of, extensions_of.get(row.op_id, [])) for row in operations]


def _outcome(
    operation: Operation,
    events_of: dict[str, list[tuple[int, KeyEvent]]],
    extensions: list[Extension],
) -> Outcome:
    firsts = []
    for key in set(operation.keys):
        first = _first(operation.submitted_ms, events_of.get(key, []))
        firsts += [] if first is None else [first]
    end = _deadline(operation, extensions)
    in_time = sorted(first for first in firsts if first.at_ms <= end)
    for place, first in enumerate(in_time, 1):
        deadline = _deadline(operation, [e for e in extensions if e.at_ms <= first.at_ms])
        if first.failed:
            return _ended(operation, FAILED, first.at_ms, None, deadline)
        if place == operation.need:
            return _ended(operation, COMPLETED, first.at_ms, first.key, deadline)
    return _ended(operation, EXPIRED, end, None, end)


def _first(start: int, events: list[tuple[int, KeyEvent]]) -> _First | None:
    """Return the event of one key that counts for an operation submitted at `start`."""
    before = [(n, e) for n, e in events if e.at_ms < start and not e.failed]
    if before:
        # Of several at the last instant the longest hold, and of equal ones the first.
        place, last = max(before, key=lambda row: (row[1].at_ms, row[1].hold_ms, -row[0]))
        if last.at_ms + last.hold_ms >= start:
            return _First(start, last.at_ms, place, last.key, False)
    after = [_First(e.at_ms, e.at_ms, n, e.key, e.failed) for n, e in events if e.at_ms >= start]
    return min(after, default=None)


def _deadline(operation: Operation, extensions: list[Extension]) -> int:
    """Return the deadline after extensions, if nothing else ends the operation."""
    deadline = operation.submitted_ms + operation.timeout_ms
    if not extensions:  # as in most traces; a year of flights is resolved in a test
        return deadline
    for at in sorted({e.at_ms for e in extensions if e.at_ms >= operation.submitted_ms}):
        if at <= deadline:
            deadline = [at + e.timeout_ms for e in extensions if e.at_ms == at][-1]
    return deadline


def _ended(
    operation: Operation, outcome: str, at_ms: int, by_key: str | None, deadline_ms: int
) -> Outcome:
    start = operation.submitted_ms
    return Outcome(
        op_id=operation.op_id,
        kind=operation.kind,
        outcome=outcome,
        at_ms=at_ms,
        by_key=by_key,
        submitted_ms=start,
        deadline_ms=deadline_ms,
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
    moments = instants.map(lambda at: start_ms + at)
    event = st.builds(KeyEvent, keys, moments, st.just(0), st.just(False))
    events = draw(st.lists(event, max_size=16))
    if in_order:
        operations.sort(key=lambda operation: operation.submitted_ms)
        events.sort(key=lambda event: event.at_ms)
    return operations, events


@st.composite
def full_traces(draw: st.DrawFn, *, start_ms: int = 0, in_order: bool = True) -> FullTrace:
    """Draw a small trace as `traces` does, with held and failed events and with extensions.

    Events are held for short, for long, or not at all, one in four failed. Extensions come before,
    at and after submissions, deadlines and ends, also for operations that do not exist; they are
    drawn so that several meet at one instant.
    """
    operations, events = draw(traces(start_ms=start_ms, in_order=in_order))
    holds = st.sampled_from((0, 0, 1, 2, 5, 20, 400, 8_000))
    is_failed = st.sampled_from((True, False, False, False))
    ids = st.sampled_from([*(row.op_id for row in operations), "none"])
    instants = st.integers(0, 12) | st.sampled_from((19, 20, 21, 400, 8_000))
    moments = instants.map(lambda at: start_ms + at)
    extensions = draw(st.lists(st.builds(Extension, ids, moments, instants), max_size=16))
    if in_order:
        extensions.sort(key=lambda extension: extension.at_ms)
    events = [event._replace(hold_ms=draw(holds), failed=draw(is_failed)) for event in events]
    return FullTrace(operations, events, extensions)


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
