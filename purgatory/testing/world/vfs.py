"""SimulatedVfs: SQLite's view of a simulated disk, and the files and connections of a process.

SQLite is that of apsw, which lets Python be its file system.
"""

from itertools import count
from pathlib import Path
from typing import Any, Final

import apsw

from purgatory.errors import StoreError
from purgatory.service.store.database_files import WalPreallocator
from purgatory.testing.world.database import SimulatedDatabase
from purgatory.testing.world.disk import Disk, DiskError, Handles
from purgatory.testing.world.log_file import LogFile
from purgatory.testing.world.vfs_file import VfsFile
from purgatory.testing.world.world import World

_NUMBERS: Final = count()
_PAGE_BYTES: Final = 4096
# With the first sync of these SQLite syncs the directory, too, whether it has made them or not.
_SYNC_DIRECTORY: Final = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


class SimulatedDatabaseFiles:
    """The `DatabaseFiles`, and `connect`, of a process with `handles` on a disk."""

    def __init__(self, world: World, disk: Disk, handles: Handles) -> None:
        self._disk = disk
        self._handles = handles
        self._vfs = SimulatedVfs(world, disk, handles)
        self._databases: list[SimulatedDatabase] = []
        self._closed = False

    def connect(self, path: str, **options: Any) -> Any:
        """Open a database, as `sqlite3.connect` does."""
        del options
        database = SimulatedDatabase(path, self._vfs.name)
        self._databases.append(database)
        return database

    def make_private(self, path: Path) -> None:
        """Make an empty database file if there is none."""
        name = str(path)
        if not self._disk.exists(name):
            self._disk.open(name, self._handles, create=True)

    def wal_preallocator(self, log: Path, enough: int) -> WalPreallocator:
        """Return what extends a log."""
        return WalPreallocator(log, enough, LogFile(self._disk, self._handles))

    def copy(self, connection: Any, target: Path) -> None:
        """Copy a database, in the steps of `copy_database`. Raises StoreError."""
        unfinished = str(target.with_name(f".{target.name}.unfinished"))
        self._disk.delete(unfinished, self._handles)
        file = self._disk.open(unfinished, self._handles, create=True)
        content: bytes = connection.content()
        try:
            for offset in range(0, len(content), _PAGE_BYTES):
                file.write(content[offset : offset + _PAGE_BYTES], offset)
            file.sync()
            self._disk.rename(unfinished, str(target), self._handles)
            self._disk.sync_names(self._handles)
        except DiskError as error:
            raise StoreError(f"{target}: cannot copy the database there: {error}") from error

    def close(self) -> None:
        """Let go of what SQLite holds; not within a step of SQLite's."""
        databases, self._databases = self._databases, []
        for database in databases:
            database.close()
        if not self._closed:
            self._closed = True
            self._vfs.unregister()


class SimulatedVfs(apsw.VFS):
    """A file system for SQLite."""

    def __init__(self, world: World, disk: Disk, handles: Handles) -> None:
        self.name: str = f"simulated-{next(_NUMBERS)}"
        self._world = world
        self._disk = disk
        self._handles = handles
        super().__init__(self.name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802  # SQLite's names
        """Open a file."""
        # A temporary file has no name.
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        file = self._disk.open(path, self._handles, create=True)
        return VfsFile(self._disk, self._handles, file, bool(flags[0] & _SYNC_DIRECTORY))

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        """Tell whether there is a file."""
        del flags
        return self._disk.exists(pathname)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """Delete a file."""
        self._disk.delete(filename, self._handles)
        if syncdir:
            self._disk.sync_names(self._handles)

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        """Return the name."""
        return name

    def xRandomness(self, numbytes: int) -> bytes:  # noqa: N802
        """Return random bytes of the world."""
        return self._world.random.randbytes(numbytes)

    def xCurrentTimeInt64(self) -> int:  # noqa: N802
        """Return no time: no statement asks for it."""
        return 0

    def excepthook(self, *_: object) -> bool:
        """Say nothing of faults: SQLite is told."""
        return True

    def xSleep(self, microseconds: int) -> int:  # noqa: N802
        """Do not sleep."""
        return microseconds
