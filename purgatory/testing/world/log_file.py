"""LogFile: the write-ahead log, as what extends it sees it."""

from pathlib import Path

from purgatory.testing.world.disk import Disk, DiskError, Handles, OpenFile


class LogFile:
    """As much of `os` as `WalPreallocator` uses; one file is open at a time."""

    def __init__(self, disk: Disk, handles: Handles) -> None:
        self._disk = disk
        self._handles = handles
        self._file: OpenFile | None = None

    def open(self, path: Path, flags: int) -> int:
        """Open the file."""
        del flags
        self._file = self._disk.open(str(path), self._handles, create=False)
        return 3

    def lseek(self, file: int, offset: int, whence: int) -> int:
        """Return its size; nothing reads or writes where it is."""
        del file, offset, whence
        assert self._file is not None
        return self._file.size()

    def pwrite(self, file: int, data: bytes, offset: int) -> int:
        """Write. Raises OSError."""
        del file
        assert self._file is not None
        try:
            self._file.write(data, offset)
        except DiskError as error:
            raise OSError(str(error)) from error
        return len(data)

    def close(self, file: int) -> None:
        """Close the file."""
        del file
        self._file = None
