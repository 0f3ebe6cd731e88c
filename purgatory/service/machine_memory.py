"""The memory of the machine or cgroup, and of this process. Any thread."""

import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_STATM = Path("/proc/self/statm")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

#: Of the memory: the rest is for the system's cache and for programs.
SHARE = 2
MIN_BYTES = 384 << 20
MAX_BYTES = 32 << 30


def default_max_memory() -> int:
    """Return the default of `max_memory`, in bytes."""
    return min(max(available_bytes() // SHARE, MIN_BYTES), MAX_BYTES)


def available_bytes(own: Path = _OWN, cgroups: Path = _CGROUPS) -> int:
    """Return the machine's memory, or the least limit of the own cgroup."""
    machine = _PAGE_BYTES * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(own, cgroups)])


def _limits(own: Path, cgroups: Path) -> Iterator[int]:
    """Yield the limits of the own cgroup and its parents, of both versions of cgroups."""
    for line in _text(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            top, name = (
                (cgroups / "memory", "memory.limit_in_bytes")
                if controllers
                else (cgroups, "memory.max")
            )
            directory = Path(path.lstrip("/"))
            for place in (directory, *directory.parents):
                limit = _text(top / place / name).strip()
                if limit.isdigit():  # else unlimited
                    yield int(limit)


def resident_bytes() -> int:
    """Return this process's resident memory; 0: unknown."""
    pages = _text(_STATM).split()
    return int(pages[1]) * _PAGE_BYTES if pages else 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
