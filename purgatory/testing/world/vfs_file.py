"""VfsFile: an open file of SQLite's, on a simulated disk."""

from typing import Any, Final

import apsw

from purgatory.testing.world.disk import SECTOR_BYTES, Disk, DiskError, Handles, OpenFile

# As the real file system says.
_CHARACTERISTICS: Final = int(apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE)


class VfsFile:
    """An open file of SQLite's."""

    def __init__(self, disk: Disk, handles: Handles, file: OpenFile, sync_names: bool) -> None:
        self._disk = disk
        self._handles = handles
        self._file = file
        self._sync_names = sync_names

    def excepthook(self, *_: object) -> None:
        """Say nothing of faults: SQLite is told."""

    def xClose(self) -> None:  # noqa: N802
        """Do nothing."""

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        """Return so many bytes, fewer at the end."""
        return self._file.read(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        """Write."""
        try:
            self._file.write(data, offset)
        except DiskError as error:
            raise _error_of(error, apsw.SQLITE_IOERR_WRITE) from None

    def xTruncate(self, size: int) -> None:  # noqa: N802
        """Cut off what is beyond a size."""
        try:
            self._file.truncate(size)
        except DiskError as error:
            raise _error_of(error, apsw.SQLITE_IOERR_TRUNCATE) from None

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Make sure that its content, and once its name, is on disk."""
        del flags
        try:
            self._file.sync()
            if self._sync_names:
                self._disk.sync_names(self._handles)
                self._sync_names = False
        except DiskError as error:
            raise _error_of(error, apsw.SQLITE_IOERR_FSYNC) from None

    def xFileSize(self) -> int:  # noqa: N802
        """Return its size in bytes."""
        return self._file.size()

    def xLock(self, level: int) -> None:  # noqa: N802
        """Do nothing: no other process has it open."""

    def xUnlock(self, level: int) -> None:  # noqa: N802
        """Do nothing."""

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        """Return that no other process has it locked."""
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:  # noqa: N802
        """Return that no request is known."""
        del op, pointer
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        """Return what the disk writes at once."""
        return SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        """Return what the disk promises."""
        return _CHARACTERISTICS


def _error_of(error: DiskError, code: int) -> Any:
    if error.full:
        return apsw.FullError("database or disk is full")
    raised: Any = apsw.IOError("disk I/O error")
    raised.extendedresult = code
    return raised
