"""Feeder: submits the operations of a window to a purgatory, and completes its keys.

For the engine, in its thread. Compiled, as it runs for each row.
"""

from collections.abc import Callable
from typing import Any, Final

from purgatory.core.completion import complete_key
from purgatory.core.keys import distinct_keys
from purgatory.core.purgatory_core import PurgatoryCore, parts_of
from purgatory.core.submission import submit
from purgatory.replay.clock import BEFORE_ANY_TRACE_MS, ReplayClock
from purgatory.replay.operation import LONGEST_DELAY_MS, KeyFailed, OutcomeCollector, TraceOperation
from purgatory.replay.timeline import Part, Window
from purgatory.trace.tables import Columns
from timingwheel.lowlevel import NS_PER_MS, add_task_at

_NS_PER_S: Final = 1000 * NS_PER_MS
# After any time of a trace.
_NEVER: Final = 2**64


class Feeder:
    """Feeds a purgatory. `after_instant(rows)`: called after each instant in real time.

    `last_due_ms`: the latest deadline. `may_extend`: the trace has extensions.
    """

    def __init__(
        self,
        purgatory: PurgatoryCore,
        clock: ReplayClock,
        outcomes: OutcomeCollector,
        after_instant: Callable[[int], object],
    ) -> None:
        self.last_due_ms: int = BEFORE_ANY_TRACE_MS
        self.may_extend: bool = False
        self._purgatory = purgatory
        self._parts: Final = parts_of(purgatory)
        self._clock = clock
        self._in_real_time: bool = clock.in_real_time
        self._outcomes = outcomes
        self._after_instant = after_instant
        # Operations of this window that are watched, and not on the wheel yet.
        self._off_wheel: list[TraceOperation] = []
        # Waiting operations by id; empty without extensions.
        self._waiting: dict[str, list[TraceOperation]] = {}

    def feed(self, window: Window) -> int:
        """Feed a window; return the place after its last fed operation."""
        if self._in_real_time or not self._is_plain(window):
            return self._feed_instants(window)
        self._feed_plain(window.operations, window.events)
        return window.operations.end

    def _is_plain(self, window: Window) -> bool:
        events = window.events
        return not (
            self.may_extend
            or self._parts.held.by_key
            or any(events.columns[2][events.start : events.end])
            or any(events.columns[3][events.start : events.end])
        )

    def _feed_plain(self, operations: Part, events: Part) -> None:
        parts = self._parts
        outcomes = self._outcomes
        waiting = self._off_wheel
        keys: list[str] = events.columns[0]
        times: list[int] = events.columns[1]
        place, end = events.start, events.end
        for op_id, kind, submitted_ms, timeout_ms, watch_keys, need in zip(*_rows_of(operations)):  # noqa: B905  # of one length
            while place < end and times[place] < submitted_ms:
                outcomes.instant_ms = times[place]
                complete_key(parts, keys[place], times[place])
                place += 1
            operation = self._new(op_id, kind, submitted_ms, submitted_ms + timeout_ms, need)
            parts.lists.watch(
                operation, watch_keys if len(watch_keys) == 1 else distinct_keys(watch_keys)
            )
            waiting.append(operation)
        while place < end:
            outcomes.instant_ms = times[place]
            complete_key(parts, keys[place], times[place])
            place += 1

    def _new(
        self, op_id: str, kind: str, submitted_ms: int, due_ms: int, need: int
    ) -> TraceOperation:
        if due_ms > self.last_due_ms:  # noqa: PLR1730  # interpreted, a call takes longer
            self.last_due_ms = due_ms
        return TraceOperation(op_id, kind, submitted_ms, due_ms, need, self._parts.owner)

    def settle(self) -> None:
        """Expire due operations that are not on the wheel; put the others there.

        Most have ended.
        """
        waiting, self._off_wheel = self._off_wheel, []
        timer = self._purgatory.timer
        now_ms = self._clock.now_ms()
        for operation in waiting:
            if operation.done():
                continue
            if operation.due_ms <= now_ms:
                operation.run()
                continue
            operation.start_delay(now_ms)
            add_task_at(timer, operation, now_ms + operation.delay_ns, now_ms, False)

    def _submit(
        self,
        op_id: str,
        kind: str,
        submitted_ms: int,
        due_ms: int,
        watch_keys: tuple[str, ...],
        need: int,
        now_ms: int,
    ) -> None:
        operation = self._new(op_id, kind, submitted_ms, due_ms, need)
        operation.start_delay(now_ms)
        if self.may_extend:
            self._waiting.setdefault(op_id, []).append(operation)
        submit(self._parts, operation, distinct_keys(watch_keys), is_internal=True)

    def _feed_instants(self, window: Window) -> int:
        operations, extensions, events = window.operations, window.extensions, window.events
        place, extension, event = operations.start, extensions.start, events.start
        while True:
            at_ms = min(
                _time_of(operations, 2, place),
                _time_of(extensions, 1, extension),
                _time_of(events, 1, event),
            )
            if at_ms == _NEVER:
                return place
            self._clock.advance_to(at_ms - 1)
            if self._clock.stopped:
                return place
            self._outcomes.instant_ms = at_ms
            after = _end_of_instant(operations, 2, place, at_ms)
            extension_after = _end_of_instant(extensions, 1, extension, at_ms)
            event_after = _end_of_instant(events, 1, event, at_ms)
            self._submit_and_extend(
                Part(operations.columns, place, after),
                Part(extensions.columns, extension, extension_after),
                at_ms,
            )
            self._process_events(events.columns, event, event_after, at_ms)
            if self._in_real_time:
                done = after - place + extension_after - extension + event_after - event
                self._after_instant(done)
            place, extension, event = after, extension_after, event_after

    def _submit_and_extend(self, operations: Part, extensions: Part, at_ms: int) -> None:
        now_ms = self._clock.now_ms()
        # The last extension wins. Held events count after the extensions of the instant.
        extended: dict[str, int] = {}
        op_ids, _, timeouts = extensions.columns
        for place in range(extensions.start, extensions.end):
            extended[op_ids[place]] = at_ms + timeouts[place]
        for op_id, kind, submitted_ms, timeout_ms, keys, need in zip(*_rows_of(operations)):  # noqa: B905  # of one length
            due_ms = extended.get(op_id, submitted_ms + timeout_ms)
            self._submit(op_id, kind, submitted_ms, due_ms, keys, need, now_ms)
        for op_id, due_ms in extended.items():
            self._extend(op_id, due_ms, at_ms, now_ms)

    def _extend(self, op_id: str, due_ms: int, at_ms: int, now_ms: int) -> None:
        for operation in self._waiting.get(op_id, ()):
            if operation.done() or operation.expire_before(at_ms):
                continue
            operation.due_ms = due_ms
            self.last_due_ms = max(self.last_due_ms, due_ms)
            self._purgatory.extend(operation, _timer_seconds(due_ms - now_ms))

    def _process_events(self, columns: Columns, start: int, end: int, at_ms: int) -> None:
        """Complete or fail an instant's keys; a key's longest hold counts."""
        keys, _, holds, failed = columns
        purgatory = self._purgatory
        longest = _longest_holds(columns, start, end)
        for place in range(start, end):
            key: str = keys[place]
            held = longest.get(key, end)
            if failed[place]:
                purgatory.fail(key, KeyFailed(at_ms))
            elif place < held:
                purgatory.complete(key, at_ms)
            elif place == held:
                purgatory.complete(key, at_ms, hold=_timer_seconds(holds[place]))
            # Else nothing waits for the key, and the longest hold stays.

    def forget(self, ended: list[TraceOperation]) -> None:
        """Drop ended operations."""
        if not self.may_extend:
            return
        for operation in ended:
            same = self._waiting.get(operation.op_id, [])
            left = [other for other in same if not other.done()]
            if left:
                self._waiting[operation.op_id] = left
            else:
                self._waiting.pop(operation.op_id, None)


def _rows_of(part: Part) -> tuple[list[Any], ...]:
    return tuple([column[part.start : part.end] for column in part.columns])


def _time_of(part: Part, time_place: int, place: int) -> int:
    if place >= part.end:
        return _NEVER
    time_ms: int = part.columns[time_place][place]
    return time_ms


def _end_of_instant(part: Part, time_place: int, place: int, at_ms: int) -> int:
    while place < part.end and part.columns[time_place][place] == at_ms:
        place += 1
    return place


def _longest_holds(columns: Columns, start: int, end: int) -> dict[str, int]:
    """Return the place of the longest hold by key, of equal ones the first."""
    keys, _, holds, failed = columns
    places: dict[str, int] = {}
    for place in range(start, end):
        if holds[place] and not failed[place]:
            before = places.get(keys[place])
            if before is None or holds[place] > holds[before]:
                places[keys[place]] = place
    return places


def _timer_seconds(ms: int) -> float:
    """Return the timer's seconds for milliseconds; exact below 2**52."""
    return min(ms, LONGEST_DELAY_MS) / _NS_PER_S
