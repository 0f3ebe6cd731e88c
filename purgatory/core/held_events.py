"""HeldEvents: events that also count for operations submitted later, for a while.

A held event is a task of the timer, which removes the event at its time; the submission also checks
the clock. A limited event gives out *units*, one for each operation reached. A unit is claimed
before the operation sees the event, and returned if the operation did not change.

The lock here is a leaf: under it only `__hash__` and `__eq__` of keys run. Any thread.
"""

from collections.abc import Hashable
from typing import Final

from _purgatory_cpython.mypyc_types import i64
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import UNAFFECTED, Claim
from purgatory.errors import HeldFull
from timingwheel import Timer, TimerClosed, TimerTask
from timingwheel.lowlevel import MAX_COUNT, add_task_at, is_owned, new_hot_rlock, now_ns, plain_int

UNLIMITED: Final = -1


def check_limit(limit: object) -> int:
    """Return a limit; UNLIMITED for None. Raises TypeError, and ValueError for less than 1."""
    if limit is None:
        return UNLIMITED
    count = plain_int("limit", limit)
    if count < 1:
        raise ValueError(f"limit is {limit!r}; expected at least 1")
    return min(count, MAX_COUNT)


class HeldEvent(TimerTask):
    """A completion: limited, or held until a deadline, or both.

    `units`: for how many more operations it may count, or UNLIMITED. `claimed`: units under way.
    `refused`: operations refused because all units were claimed, and operations queued after them.
    `spreading`: the completing thread has not yet offered the event to all waiting operations. The
    lock of HeldEvents guards these fields.
    """

    __slots__ = ("_holder", "claimed", "key", "number", "refused", "spreading", "units", "value")

    def __init__(self, holder: "HeldEvents", key: Hashable, value: object, limit: i64) -> None:
        super().__init__(0)
        self._holder = holder
        self.key: Hashable = key
        self.value: object = value
        self.units: i64 = limit
        self.claimed: i64 = 0
        self.number: i64 = 0  # in order of arrival
        self.refused: list[DelayedOperation] = []
        self.spreading: bool = limit != UNLIMITED

    def run(self) -> object:
        """Remove the event."""
        self._holder.remove(self)
        return None

    def _tt_on_close(self) -> None:
        self._holder.remove(self)

    def _tt_on_error(self) -> None:
        self._holder.remove(self)  # the timer does not call `run` again


class HeldEvents:
    """The held events of a single purgatory, at most one a key and `max_held` in all.

    `holds`: whether there may be any. Read without the lock, and without counting a reference, for
    which threads would wait.
    """

    def __init__(self, name: str, timer: Timer, max_held: int) -> None:
        self._name = name
        self._timer = timer
        self._max_held = max_held
        self._lock = new_hot_rlock()  # a key's __eq__ or a finalizer may re-enter
        self.by_key: Final[dict[Hashable, HeldEvent]] = {}
        self.holds: bool = False
        self._last_number = i64(0)
        self._closed = False

    def __len__(self) -> int:
        return len(self.by_key)

    def hold(self, event: HeldEvent, hold_ns: int) -> None:
        """Hold an event, replacing the key's former event. Nothing happens after `close`.

        Raises HeldFull, TimerFull and TimerClosed; then all is as it was.
        """
        if self._is_closed():
            return
        self._check_room(event.key)
        held = False
        old = None
        now = now_ns(self._timer)
        is_new = event.key not in self.by_key  # else the event takes the place of the former one
        try:
            # The last nanosecond counts.
            add_task_at(self._timer, event, now + hold_ns + 1, now, limited=is_new)
            with self._lock:
                number = i64(-1)
                while number != self._last_number:  # else a signal handler has held another
                    number = self._last_number
                    self._check_room(event.key)
                    old = self.by_key.get(event.key)
                # No call from here on.
                self._last_number += 1
                event.number = self._last_number
                # Not held if due already: this thread was slow.
                if not self._closed and event._tt_list is not None:
                    self.holds = True
                    self.by_key[event.key] = event
                    held = True
        except TimerClosed:
            if not self._is_closed():  # meanwhile
                raise
        finally:
            over = old if held else event
            if over is not None:
                try:
                    over.cancel()
                except BaseException:  # an interrupt
                    over.cancel()
                    raise

    def _is_closed(self) -> bool:
        return self._closed

    def _check_room(self, key: Hashable) -> None:
        if len(self.by_key) >= self._max_held and key not in self.by_key:
            raise HeldFull(f"purgatory {self._name!r} holds max_held={self._max_held} events")

    def drop(self, key: Hashable) -> None:
        """Drop the held event of a key, if any."""
        with self._lock:
            event = self.by_key.get(key)
        if event is not None:
            self.remove(event)

    def remove(self, event: HeldEvent) -> None:
        """Drop an event, if it is held. Idempotent."""
        try:
            self._remove(event)
        except BaseException:  # an interrupt
            self._remove(event)
            raise

    def _remove(self, event: HeldEvent) -> None:
        with self._lock:
            # No call, in which a signal handler could remove or replace it.
            if event.key in self.by_key and self.by_key[event.key] is event:
                del self.by_key[event.key]
            if not self.by_key:
                self.holds = False
        event.cancel()

    def find(self, keys: tuple[Hashable, ...]) -> list[HeldEvent]:
        """Return the events now held for some keys, in order of arrival."""
        found: list[HeldEvent] = []
        with self._lock:
            for key in keys:
                event = self.by_key.get(key)
                if event is not None:
                    found.append(event)
        if found:
            now = now_ns(self._timer)
            found = [event for event in found if now < event.deadline_ns]
            found.sort(key=_number)
        return found

    def claim(
        self, event: HeldEvent, claim: Claim, operations: list[DelayedOperation], index: int
    ) -> bool:
        """Claim a unit for one of some operations; False if none is left.

        If no unit is left but one may be returned, keep the operations from `index` on for
        `take_refused`.
        """
        if event.units == UNLIMITED:
            return True
        with self._lock:
            if event.units:
                # No call in between: an interrupt finds all done or nothing.
                event.units -= 1
                event.claimed += 1
                claim.has_unit = True
                return True
            if event.claimed:
                event.refused += operations[index:]
        return False

    def settle(self, event: HeldEvent, claim: Claim, effect: int) -> None:
        """See `Claim`; offers a returned unit to no operation."""
        if event.units == UNLIMITED:
            return
        with self._lock:
            if claim.has_unit:
                units = event.units + 1 if effect == UNAFFECTED else event.units
                event.units = units
                event.claimed -= 1
                claim.has_unit = False
            used_up = not (event.units or event.claimed)
            if used_up:
                event.refused = []
        if used_up:
            self.remove(event)

    def take_refused(self, event: HeldEvent) -> list[DelayedOperation]:
        """Return the operations for a returned unit; only once."""
        if event.refused:
            with self._lock:
                if event.units:
                    refused, event.refused = event.refused, []
                    return refused
        return []

    def holds_lock(self) -> bool:
        """Return whether the calling thread is in the middle of a change or a look."""
        return is_owned(self._lock)

    def close(self) -> None:
        """Drop all events, and hold none from now on."""
        with self._lock:
            self._closed = True
            events = list(self.by_key.values())
        for event in events:
            self.remove(event)

    def _check(self) -> None:
        with self._lock:
            assert len(self.by_key) <= self._max_held, self
            assert not (self._closed and self.by_key), self.by_key
            assert self.holds or not self.by_key, self.by_key
            for key, event in self.by_key.items():
                assert event.key == key, (key, event)
                assert event.units or event.claimed, (key, event)
                assert event._tt_list is not None or not event.done(), (key, event)

    def __repr__(self) -> str:
        return f"<HeldEvents {len(self)} of at most {self._max_held}>"


def _number(event: HeldEvent) -> int:
    return event.number
