"""WalPreallocator: keeps SQLite's write-ahead log longer than what is in it.

To sync what was appended to a file, the file system has to write down the file's new length as
well; what is written over costs about half of that. SQLite appends to its log until the first
checkpoint and writes over it from then on. So the log is lengthened by zeros, some way ahead. To
SQLite that is a log that was longer once: it reads no further than to the first frame without the
salt of this round, in a recovery too, and it never looks at the length otherwise.

It only saves time: whatever fails here is no failure of a commit. Used by the store's thread.
"""

import os
from pathlib import Path
from typing import Final

# Bytes by which the log is lengthened: by what it has, within these bounds.
_MIN_BYTES: Final = 1 << 16
_MAX_BYTES: Final = 1 << 20


class WalPreallocator:
    """``path``: the log's. ``most``: bytes above which it is long enough."""

    def __init__(self, path: Path, most: int) -> None:
        self._path = path
        self._most = most
        self._file = -1
        self._length = 0  # up to where it was lengthened
        self._over = False

    def extend_if_full(self) -> None:
        """Lengthen the log if the last commit has filled it."""
        if self._over:
            return
        try:
            if self._file < 0:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
            length = os.fstat(self._file).st_size
            if length > self._length:
                self._lengthen(length)
        except OSError:  # the disk is full, or the file is not where we think
            self.close()

    def _lengthen(self, length: int) -> None:
        if length >= self._most:
            self.close()
            return
        zeros = bytes(min(max(length, _MIN_BYTES), _MAX_BYTES))
        self._length = length + os.pwrite(self._file, zeros, length)

    def close(self) -> None:
        """Lengthen it no more. Idempotent."""
        self._over = True
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
