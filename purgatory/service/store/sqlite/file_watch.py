"""FileWatch: whether the files of an open database are still where they were.

A program continues with an open file after its name is gone: the writes are lost for a later start.
Any thread, one at a time.
"""

from pathlib import Path


class FileWatch:
    """Watches the file `database` of an open database, its log, and the log's index."""

    def __init__(self, database: Path) -> None:
        log, index = (database.with_name(database.name + suffix) for suffix in ("-wal", "-shm"))
        self._paths = (database, log, index)
        self._growing = (database, log)  # SQLite writes a log from its beginning, and never cuts it
        self._known: dict[Path, tuple[int, int]] = {}
        self._sizes: dict[Path, int] = {}
        self.trouble()  # a file may be gone before the next look

    def trouble(self) -> str:
        """Return the fate of a missing or replaced file; empty if all are unchanged."""
        for path in self._paths:
            try:
                status = path.stat()
            except OSError as error:
                if path in self._known:
                    return f"{path}: deleted while the server had it open: {error.strerror}"
                continue
            identity = status.st_dev, status.st_ino
            if self._known.setdefault(path, identity) != identity:
                return f"{path}: replaced by another file while the server had it open"
            if path in self._growing:
                if status.st_size < self._sizes.get(path, 0):
                    return f"{path}: cut off while the server had it open"
                self._sizes[path] = status.st_size
        return ""
