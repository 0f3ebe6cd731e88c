"""Directories and names of files that are on disk on return, and their locks. Any thread."""

import errno
import fcntl
import os
from pathlib import Path


def fsync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path, mode: int = 0o777) -> None:
    """Make a directory and its parents, with `mode`, on disk. Raises OSError."""
    if path.is_dir():
        return
    make_directory(path.parent, mode)
    path.mkdir(mode, exist_ok=True)
    fsync(path.parent)


class DirectoryLock:
    """Keeps a directory for the process until `close`. Raises OSError.

    BlockingIOError if another process has it. Locks the file `name` in it, and the directory
    itself: a file can be deleted, and the next process would lock another.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self._descriptors: list[int] = []
        self._pid = os.getpid()
        try:
            self._lock(directory / name, os.O_RDWR | os.O_CREAT)
            try:
                self._lock(directory, os.O_RDONLY)
            except OSError as error:
                if error.errno != errno.EBADF:  # NFS locks only what is open for writing
                    raise
        except BaseException:
            self.close()
            raise

    def _lock(self, path: Path, flags: int) -> None:
        self._descriptors.append(os.open(path, flags | os.O_CLOEXEC, 0o600))
        fcntl.flock(self._descriptors[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Release the directory, also if a forked child has the descriptors. Idempotent.

        In that child: close its descriptors only.
        """
        while self._descriptors:
            descriptor = self._descriptors.pop()
            if os.getpid() == self._pid:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)
