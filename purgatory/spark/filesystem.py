"""The few file operations that a checkpoint needs, on this machine's disks or on Hadoop's.

`file_system_for` chooses by the scheme of a path: none or `file:` is a local disk, worked on from
this process; anything else (`hdfs:`, `s3a:`, ...) goes through Spark's own file systems. Paths are
strings, as Spark takes them. Safe from any thread; nothing is held between calls.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TMP: Final = ".tmp"


class FileSystem(Protocol):
    """A file system: what both of them do. Failures are OSError, or Spark's own errors."""

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted; none if it is not there."""

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or a directory of this name."""

    def read(self, path: str) -> str:
        """The text of a file."""

    def create(self, path: str, text: str) -> bool:
        """Make a file, whole or not at all; False, and nothing done, if the name is taken.

        Of several callers with one name one gets True. The directory is made if need be.
        """

    def move(self, source: str, target: str) -> None:
        """Give a file another name in the same file system; nothing happens if it has gone."""

    def delete(self, path: str) -> None:
        """Delete a file or a whole directory, if it is there."""


def file_system_for(spark: SparkSession, path: str) -> tuple[FileSystem, str]:
    """The file system of a path, and the path as that file system and Spark both take it."""
    parts = urlsplit(path)
    if parts.scheme and parts.scheme != "file" and "/" in path:
        return HadoopFileSystem(spark), path.rstrip("/")
    local = unquote(parts.path) if parts.scheme == "file" else path
    return LocalFileSystem(), str(Path(local).absolute())


class LocalFileSystem:
    """The disks of this machine, and what is mounted there."""

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted; none if it is not there."""
        try:
            return sorted(child.name for child in Path(path).iterdir())
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or a directory of this name."""
        return Path(path).exists()

    def read(self, path: str) -> str:
        """The text of a file."""
        return Path(path).read_text(encoding="utf-8")

    def create(self, path: str, text: str) -> bool:
        """Make a file; see `FileSystem.create`."""
        hidden = Path(_hidden(path))
        hidden.parent.mkdir(parents=True, exist_ok=True)
        hidden.write_text(text, encoding="utf-8")
        try:
            os.link(hidden, path)  # unlike a rename, it refuses a name that is taken
        except FileExistsError:
            return False
        finally:
            hidden.unlink()
        return True

    def move(self, source: str, target: str) -> None:
        """Give a file another name; see `FileSystem.move`."""
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            Path(source).replace(target)

    def delete(self, path: str) -> None:
        """Delete a file or a whole directory, if it is there."""
        try:
            Path(path).unlink(missing_ok=True)
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(path, ignore_errors=True)


class HadoopFileSystem:
    """The file systems that Spark knows, through its Java process.

    `create` refuses a name that is taken as surely as the file system's rename does: HDFS does,
    object stores look first and rename then.
    """

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        self._jvm: Any = context._jvm
        self._conf: Any = context._jsc.hadoopConfiguration()

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted; none if it is not there."""
        system, at = self._at(path)
        if not system.exists(at):
            return []
        return sorted(str(status.getPath().getName()) for status in system.listStatus(at))

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or a directory of this name."""
        system, at = self._at(path)
        return bool(system.exists(at))

    def read(self, path: str) -> str:
        """The text of a file."""
        system, at = self._at(path)
        stream = system.open(at)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def create(self, path: str, text: str) -> bool:
        """Make a file; see `FileSystem.create`."""
        system, at = self._at(path)
        _, hidden = self._at(_hidden(path))
        stream = system.create(hidden, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        # A local disk, seen through Hadoop, would overwrite.
        done = not system.exists(at) and bool(system.rename(hidden, at))
        if not done:
            system.delete(hidden, False)
        return done

    def move(self, source: str, target: str) -> None:
        """Give a file another name; see `FileSystem.move`."""
        system, old = self._at(source)
        _, new = self._at(target)
        if system.exists(old):
            system.mkdirs(new.getParent())
            # A copy that an object store had not finished is in the way.
            system.delete(new, False)
            if not system.rename(old, new):
                raise OSError(f"{source}: cannot be renamed to {target}")

    def delete(self, path: str) -> None:
        """Delete a file or a whole directory, if it is there."""
        system, at = self._at(path)
        system.delete(at, True)

    def _at(self, path: str) -> tuple[Any, Any]:
        at = self._jvm.org.apache.hadoop.fs.Path(path)
        return at.getFileSystem(self._conf), at


def _hidden(path: str) -> str:
    """A name beside a file that nobody else takes; readers pass over names with a dot."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.{secrets.token_hex(8)}{_TMP}"
