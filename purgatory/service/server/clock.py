"""ServiceClock: Unix time that does not jump.

A server derives Unix milliseconds from the time since boot, so setting the wall clock moves no
deadline. The next run continues the same count, unless the machine was booted meanwhile. If the
wall clock was set, the next start moves the times of what waits by as much (`shift_ms`): they are
Unix times again, and as far away as before. Any thread may read it.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from purgatory.service.platform import boot_ns

# A smaller difference is the error of comparing two clocks, not a jump of the wall clock.
JUMP_MS: Final = 1000

_NS_PER_MS: Final = 1_000_000
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the identity of the last boot; empty where the system has none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class ClockSources:
    """The clocks of the system; functions, so that tests can replace them."""

    wall_ns: Callable[[], int] = time.time_ns
    boot_ns: Callable[[], int] = boot_ns
    boot_id: Callable[[], str] = boot_id


class ServiceClock:
    """The clock of one run; `metadata` is what the last run returned, empty at the first."""

    def __init__(self, metadata: Mapping[str, Any], sources: ClockSources | None = None) -> None:
        self._sources = ClockSources() if sources is None else sources
        self._boot_id = self._sources.boot_id()
        wall_offset_ns = self._sources.wall_ns() - self._sources.boot_ns()
        #: By how many milliseconds the times of what waits have to be moved at this start.
        self.shift_ms: int = 0
        self._offset_ns = wall_offset_ns
        if self._boot_id and metadata.get("boot_id") == self._boot_id:
            jump_ms = _whole_ms(wall_offset_ns - metadata["offset_ns"])
            if abs(jump_ms) < JUMP_MS:
                self._offset_ns = metadata["offset_ns"]
            else:
                self.shift_ms = jump_ms
        elif abs(metadata.get("drift_ms", 0)) >= JUMP_MS:
            self.shift_ms = metadata["drift_ms"]

    def now_ns(self) -> int:
        """Return Unix nanoseconds; never goes back."""
        return self._sources.boot_ns() + self._offset_ns

    def now_ms(self) -> int:
        """Return Unix milliseconds; never goes back."""
        return self.now_ns() // _NS_PER_MS

    def seconds_until(self, when_ns: int) -> float:
        """Return the seconds until `now_ns` is `when_ns`; 0 if it has passed."""
        return max(0, when_ns - self.now_ns()) / 1e9

    def metadata(self) -> dict[str, Any]:
        """Return what the next run needs to continue this clock."""
        drift_ns = self._sources.wall_ns() - self._sources.boot_ns() - self._offset_ns
        return {
            "boot_id": self._boot_id,
            "offset_ns": self._offset_ns,
            "drift_ms": _whole_ms(drift_ns),
        }


def _whole_ms(ns: int) -> int:
    """Round up: a deadline that is moved by it comes late rather than early."""
    return -(-ns // _NS_PER_MS)
