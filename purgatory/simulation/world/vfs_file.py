"""VfsFile: an open file of SQLite's, on a simulated disk."""

from typing import Any, Final

import apsw

from purgatory.simulation.world.disk import SECTOR_BYTES, Disk, DiskError, Handles, OpenFile

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
        pass

    def xClose(self) -> None:  # noqa: N802
        pass

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        return self._file.read(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        try:
            self._file.write(data, offset)
        except DiskError as error:
            raise _error_of(error, apsw.SQLITE_IOERR_WRITE) from None

    def xTruncate(self, size: int) -> None:  # noqa: N802
        try:
            self._file.truncate(size)
        except DiskError as error:
            raise _error_of(error, apsw.SQLITE_IOERR_TRUNCATE) from None

    def xSync(self, flags: int) -> None:  # noqa: N802
        del flags
        try:
            self._file.sync()
            if self._sync_names:
                self._disk.sync_names(self._handles)
                self._sync_names = False
        except DiskError as error:
            raise _error_of(error, apsw.SQLITE_IOERR_FSYNC) from None

    def xFileSize(self) -> int:  # noqa: N802
        return self._file.size()

    def xLock(self, level: int) -> None:  # noqa: N802
        pass

    def xUnlock(self, level: int) -> None:  # noqa: N802
        pass

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:  # noqa: N802
        del op, pointer
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return _CHARACTERISTICS


def _error_of(error: DiskError, code: int) -> Any:
    if error.full:
        return apsw.FullError("database or disk is full")
    raised: Any = apsw.IOError("disk I/O error")
    raised.extendedresult = code
    return raised
