"""WalPreallocator: extends SQLite's write-ahead log ahead of what is written to it.

Syncing data that was appended to a file costs about twice as much as syncing data that was
overwritten, since the file system has to record the new length too. SQLite appends to its log until
the first checkpoint, and overwrites it from then on. So the log is extended by zeros, some way
ahead. To SQLite it looks like a log that was longer once: it reads up to the first frame without
the salt of the current round, in a recovery too, and ignores the length otherwise.

It only saves time: an error here does not fail a commit. Used by the store thread alone.
"""

import os
from pathlib import Path
from typing import Any, Final

# The log is extended by its own length, within these bounds in bytes.
_MIN_BYTES: Final = 1 << 16
_MAX_BYTES: Final = 1 << 20


class WalPreallocator:
    """Extends the log at `path`, until it has `enough` bytes; `system` stands for `os`."""

    def __init__(self, path: Path, enough: int, system: Any = os) -> None:
        self._system = system
        self._path = path
        self._enough = enough
        self._file = -1
        self._length = 0  # of the log when it was last extended
        self._closed = False

    def extend_if_full(self) -> None:
        """Extend the log if the last commit has filled it."""
        if self._closed:
            return
        try:
            if self._file < 0:
                self._file = self._system.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
            length = self._system.lseek(self._file, 0, os.SEEK_END)
            if length > self._length:
                self._extend(length)
        except OSError:  # the disk is full, or there is no such file
            self.close()

    def _extend(self, length: int) -> None:
        if length >= self._enough:
            self.close()
            return
        zeros = bytes(min(max(length, _MIN_BYTES), _MAX_BYTES))
        self._length = length + self._system.pwrite(self._file, zeros, length)

    def close(self) -> None:
        """Stop extending. Idempotent."""
        self._closed = True
        file, self._file = self._file, -1
        if file >= 0:
            self._system.close(file)
