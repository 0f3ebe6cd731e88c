"""The clocks of a server: Unix time that does not jump, the timer's, and the stamp of events.

`ServiceClock` derives Unix milliseconds from the time since boot: setting the wall clock moves no
deadline. The next run continues the same count, unless the machine was booted meanwhile. If the
wall clock was set, the next start moves the times of what waits by as much (`shift_ms`). A store of
several machines has its own clock, and each run continues from there. Any thread may read it.

`Stamp` is the millisecond with which a server stamps events, so that a journal resolves to the
delivered outcomes. A trace orders a millisecond: submissions, then events, then expiries; of
several events of one key the longest hold counts. A request in another order gets the next
millisecond, and so does an event of a key of which an operation has expired in the millisecond. For
the store thread.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from _purgatory_cpython.mypyc_types import i64
from purgatory.service.platform import boot_ns

# A smaller difference is an error of measurement.
JUMP_MS: Final = 1000

NS_PER_MS: Final = 1_000_000
#: The timer's tick: an expiry is at most so late.
TICK_NS: Final = 250_000
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the identity of the last boot, if known."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class ClockSources:
    """The clocks of the system; tests replace them."""

    wall_ns: Callable[[], int] = time.time_ns
    boot_ns: Callable[[], int] = boot_ns
    boot_id: Callable[[], str] = boot_id


class ServiceClock:
    """The clock of one run; `metadata` of the last run, empty at the first.

    `offset_ns`: service time minus the time since boot, from a store with its own clock; None:
    `metadata` continues this machine's clock.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        sources: ClockSources | None = None,
        offset_ns: int | None = None,
    ) -> None:
        self._sources = ClockSources() if sources is None else sources
        self._boot_id = self._sources.boot_id()
        wall_offset_ns = self._sources.wall_ns() - self._sources.boot_ns()
        #: By how much to move the times of what waits.
        self.shift_ms: int = 0
        self._offset_ns = wall_offset_ns
        if offset_ns is not None:
            self._offset_ns = offset_ns
        elif self._boot_id and metadata.get("boot_id") == self._boot_id:
            jump_ms = _whole_ms(wall_offset_ns - metadata["offset_ns"])
            if abs(jump_ms) < JUMP_MS:
                self._offset_ns = metadata["offset_ns"]
            else:
                self.shift_ms = jump_ms
        elif abs(metadata.get("drift_ms", 0)) >= JUMP_MS:
            self.shift_ms = metadata["drift_ms"]

    def undo_shift(self) -> None:
        """Continue the last run's clock, however the wall clock was set: the times did not move."""
        self._offset_ns -= self.shift_ms * NS_PER_MS
        self.shift_ms = 0

    def now_ns(self) -> int:
        """Return Unix nanoseconds; never goes back."""
        return self._sources.boot_ns() + self._offset_ns

    def now_ms(self) -> int:
        """Return Unix milliseconds."""
        return self.now_ns() // NS_PER_MS

    def seconds_until(self, when_ns: int) -> float:
        """Return the seconds until `when_ns`; 0 if it has passed."""
        return max(0, when_ns - self.now_ns()) / 1e9

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of this run."""
        drift_ns = self._sources.wall_ns() - self._sources.boot_ns() - self._offset_ns
        return {
            "boot_id": self._boot_id,
            "offset_ns": self._offset_ns,
            "drift_ms": _whole_ms(drift_ns),
        }


def _whole_ms(ns: int) -> int:
    """Round up: a moved deadline comes late rather than early."""
    return -(-ns // NS_PER_MS)


class TransactionClock:
    """The clock of the server's timer; stands still within a transaction. Store thread alone.

    Readings are Unix time in whole ticks, and never go back.
    """

    def __init__(self, now_ms: int) -> None:
        #: The reading in nanoseconds.
        self.reading_ns: i64 = now_ms * NS_PER_MS

    def follow(self, now_ns: i64) -> None:
        """Move to the last tick before a time."""
        self.reading_ns = now_ns // TICK_NS * TICK_NS

    def now_ns(self) -> int:
        """Return the reading, to the timer."""
        return self.reading_ns

    def __call__(self) -> int:
        """Return the reading in milliseconds."""
        return self.reading_ns // NS_PER_MS


class Stamp:
    """The present stamp, and the keys with an event, a failure, or no more events at it."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms: int = now_ms
        self.keys: set[str] = set()
        self.failed_keys: set[str] = set()
        self._closed_keys: set[str] = set()

    def follow(self, clock_ms: int) -> None:
        """Move to the clock's time, unless the stamp is ahead."""
        if clock_ms > self.now_ms:
            self.now_ms = clock_ms
            self.keys.clear()
            self.failed_keys.clear()
            self._closed_keys.clear()

    def begin_next(self) -> None:
        """Begin the next millisecond, ahead of the clock."""
        self.follow(self.now_ms + 1)

    def close(self, keys: Iterable[str]) -> None:
        """Give later events of some keys another stamp."""
        self._closed_keys.update(keys)

    def open_for(self, key: str) -> None:
        """Begin the next millisecond if this is closed for a key."""
        if key in self._closed_keys:
            self.begin_next()

    def add_event(self, key: str, *, failed: bool) -> None:
        """Note an event of a key at this stamp."""
        self.keys.add(key)
        if failed:
            self.failed_keys.add(key)
