"""SimulatedVfs and VfsFile: a simulated disk as apsw's SQLite sees it."""

from itertools import count
from typing import Any, Final

import apsw

from purgatory.testing.world.disk import SECTOR_BYTES, Disk, DiskError, Handles, OpenFile
from purgatory.testing.world.world import World

_NUMBERS: Final = count()
# SQLite syncs the directory with the first sync of these, new or not.
_SYNC_DIRECTORY: Final = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
# As of the real file system.
_CHARACTERISTICS: Final = int(apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE)


class SimulatedVfs(apsw.VFS):
    """A file system for SQLite."""

    def __init__(self, world: World, disk: Disk, handles: Handles) -> None:
        self.name: str = f"simulated-{next(_NUMBERS)}"
        self._world = world
        self._disk = disk
        self._handles = handles
        super().__init__(self.name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802  # SQLite's names
        # A temporary file has no name.
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        file = self._disk.open(path, self._handles, create=True)
        return VfsFile(self._disk, self._handles, file, bool(flags[0] & _SYNC_DIRECTORY))

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        del flags
        return self._disk.exists(pathname)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self._disk.delete(filename, self._handles)
        if syncdir:
            self._disk.sync_names(self._handles)

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name

    def xRandomness(self, numbytes: int) -> bytes:  # noqa: N802
        return self._world.random.randbytes(numbytes)

    def xCurrentTimeInt64(self) -> int:  # noqa: N802
        """Return 0: no statement asks for the time."""
        return 0

    def excepthook(self, *_: object) -> bool:
        """Report no fault: SQLite is told."""
        return True

    def xSleep(self, microseconds: int) -> int:  # noqa: N802
        return microseconds


class VfsFile:
    """An open file of SQLite."""

    def __init__(self, disk: Disk, handles: Handles, file: OpenFile, sync_names: bool) -> None:
        self._disk = disk
        self._handles = handles
        self._file = file
        self._sync_names = sync_names

    def excepthook(self, *_: object) -> None:
        """Report no fault: SQLite is told."""

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
        """Sync the file's content, and once its name."""
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
        """Do nothing: no other process opens the file."""

    def xUnlock(self, level: int) -> None:  # noqa: N802
        """Do nothing."""

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        """Return False: no other process locks the file."""
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:  # noqa: N802
        """Return False: no request is known."""
        del op, pointer
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        """Return the disk's sector size."""
        return SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        """Return the disk's promises."""
        return _CHARACTERISTICS


def _error_of(error: DiskError, code: int) -> Any:
    if error.full:
        return apsw.FullError("database or disk is full")
    raised: Any = apsw.IOError("disk I/O error")
    raised.extendedresult = code
    return raised
