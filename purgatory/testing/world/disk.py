"""Disk: files in memory; a loss of power keeps what was synced, and a random part of the rest.

Each write after the last sync of a file is lost, kept, or torn between sectors. The same holds for
names made or removed after the last sync of their directory.
"""

import random
from collections.abc import Callable
from typing import Final

from purgatory.testing.world.world import World

#: Bytes that a disk writes as a whole or not.
SECTOR_BYTES: Final = 512


class DiskError(Exception):
    """A failed step: the disk is `full`, or has a fault."""

    def __init__(self, full: bool) -> None:
        super().__init__(full)
        self.full = full

    def __str__(self) -> str:
        return "the disk is full" if self.full else "the disk failed"


class File:
    """A file: content for programs, and its unsynced part."""

    def __init__(self) -> None:
        self.data: bytearray = bytearray()
        self._durable: bytearray = bytearray()
        self._unsynced: list[tuple[int, bytes | None]] = []  # offset, data; None: truncated there

    def write(self, data: bytes, offset: int) -> None:
        """Write; zeros fill a gap."""
        _write(self.data, data, offset)
        self._unsynced.append((offset, data))

    def truncate(self, size: int) -> None:
        """Truncate to a size."""
        del self.data[size:]
        self._unsynced.append((size, None))

    def sync(self) -> None:
        """Put all writes on disk."""
        durable = self._durable
        for offset, data in self._unsynced:
            if data is None:
                del durable[offset:]
            else:
                _write(durable, data, offset)
        self._unsynced.clear()

    @property
    def size(self) -> int:
        """Bytes of the content."""
        return len(self.data)

    def flip(self, bit: int) -> None:
        """Flip a bit of the content, and on disk."""
        offset, mask = bit // 8, 1 << bit % 8
        for content in (self.data, self._durable):
            if offset < len(content):
                content[offset] ^= mask

    def lose_power(self, chance: random.Random) -> None:
        """Lose a random part of the unsynced writes."""
        share = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for offset, data in self._unsynced:
            if chance.random() < share:
                _apply(self._durable, offset, _torn(data, chance))
        self._unsynced.clear()
        self.data = bytearray(self._durable)


def _write(content: bytearray, data: bytes, offset: int) -> None:
    gap = offset - len(content)
    if gap > 0:
        content.extend(bytes(gap))
    content[offset : offset + len(data)] = data


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
    else:
        _write(content, data, offset)


def _torn(data: bytes | None, chance: random.Random) -> bytes | None:
    """Return a write, or now and then only its first sectors."""
    if data is None or len(data) <= SECTOR_BYTES or chance.random() < 0.5:
        return data
    return data[: SECTOR_BYTES * chance.randrange(len(data) // SECTOR_BYTES)]


class Handles:
    """The open files of a process; a killed process has no further effect."""

    def __init__(self) -> None:
        self.alive: bool = True


class Disk:
    """The files of a machine, by name, and its present faults."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._files: dict[str, File] = {}
        self._durable: dict[str, File] = {}  # names that survive a loss of power
        #: Called before each write and each sync, with the handles of its process. May raise
        #: DiskError, end the process, or let time pass.
        self.before_write: Callable[[Handles], None] = _nothing
        self.before_sync: Callable[[Handles], None] = _nothing
        #: Whether steps may fail, so that a server may not start.
        self.is_faulty: bool = False
        self.syncs: int = 0

    def open_handles(self) -> Handles:
        """Return the handles of a new process."""
        return Handles()

    def set_faults(
        self, before_write: Callable[[Handles], None], before_sync: Callable[[Handles], None]
    ) -> None:
        """Set the calls before each write and each sync."""
        self.before_write, self.before_sync = before_write, before_sync

    def fail_steps(self, share: float, *, full: bool) -> None:
        """Let a share of the writes fail until `work_well`; and of the syncs, unless full."""

        def before_step(handles: Handles) -> None:
            if handles.alive and self._world.chance(share):
                self._world.note(f"disk: a step {'finds it full' if full else 'meets an error'}")
                raise DiskError(full=full)

        self.set_faults(before_step, _nothing if full else before_step)
        self.is_faulty = True

    def work_well(self) -> None:
        """End all faults."""
        self.set_faults(_nothing, _nothing)
        self.is_faulty = False

    def note_sync(self) -> None:
        """Count a sync."""
        self.syncs += 1
        self._world.note("disk: syncs")

    def exists(self, name: str) -> bool:
        """Tell whether there is a file."""
        return name in self._files

    def file(self, name: str) -> File:
        """Return an existing file."""
        return self._files[name]

    def open(self, name: str, handles: Handles, *, create: bool) -> "OpenFile":
        """Open a file. Raises FileNotFoundError."""
        if name not in self._files:
            if not create:
                raise FileNotFoundError(name)
            if not handles.alive:
                return OpenFile(self, File(), handles)
            self._files[name] = File()
        return OpenFile(self, self._files[name], handles)

    def delete(self, name: str, handles: Handles) -> None:
        """Delete a file."""
        if handles.alive:
            self._files.pop(name, None)

    def rename(self, name: str, new_name: str, handles: Handles) -> None:
        """Rename a file; replaces another."""
        if handles.alive:
            self._files[new_name] = self._files.pop(name)

    def sync_names(self, handles: Handles) -> None:
        """Sync the names, like a directory."""
        self.before_sync(handles)
        if handles.alive:
            self._durable = dict(self._files)

    def lose_power(self) -> None:
        """Lose a random part of the unsynced writes and names."""
        self._world.note("disk: loses a random part of the unsynced writes")
        chance = self._world.random
        names = dict.fromkeys([*self._durable, *self._files])
        kept: dict[str, File] = {}
        for name in names:
            before, now = self._durable.get(name), self._files.get(name)
            file = now if before is now or chance.random() < 0.5 else before
            if file is not None:
                kept[name] = file
        for file in kept.values():
            file.lose_power(chance)
        self._files = kept
        self._durable = dict(kept)


class OpenFile:
    """An open file of a process."""

    def __init__(self, disk: Disk, file: File, handles: Handles) -> None:
        self._disk = disk
        self._file = file
        self._handles = handles

    def size(self) -> int:
        """Return its size in bytes."""
        return self._file.size

    def read(self, count: int, offset: int) -> bytes:
        """Return so many bytes, fewer at the end."""
        return bytes(self._file.data[offset : offset + count])

    def write(self, data: bytes, offset: int) -> None:
        """Write. Raises DiskError."""
        self._disk.before_write(self._handles)
        if self._handles.alive:
            self._file.write(bytes(data), offset)

    def truncate(self, size: int) -> None:
        """Truncate to a size. Raises DiskError."""
        self._disk.before_write(self._handles)
        if self._handles.alive:
            self._file.truncate(size)

    def sync(self) -> None:
        """Sync the file's content. Raises DiskError."""
        self._disk.before_sync(self._handles)
        if self._handles.alive:
            self._disk.note_sync()
            self._file.sync()


def _nothing(handles: Handles) -> None:
    """Let the step succeed."""
