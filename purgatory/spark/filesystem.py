"""The file operations of a checkpoint, on local disks and Hadoop's file systems.

A path without a scheme belongs to `fs.defaultFS`, the default file system of the session. The
process accesses local disks; anything else (`hdfs:`, `s3a:`, ...) goes through Spark's Java
process. Any thread may call; no file stays open between calls.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TMP: Final = ".tmp"
_LOCAL: Final = "file"  # the scheme of local disks
_GLOB: Final = re.compile(r"[{}\[\]*?\\]")
# Options of Spark's readers: no globs, and no columns from the names of directories.
LITERAL_PATHS: Final = {"__globPaths__": "false", "recursiveFileLookup": "true"}


def file_system_for(spark: SparkSession, path: str) -> tuple[FileSystem, str]:
    """Return the file system of a path, and the path in its and Spark's form."""
    parts = urlsplit(path)
    configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()
    default = urlsplit(str(configuration.get("fs.defaultFS", "file:///"))).scheme or _LOCAL
    is_url = parts.scheme and "/" in path and not (default == _LOCAL and Path(path).exists())
    scheme = parts.scheme if is_url else default
    if scheme == _LOCAL:
        local = unquote(parts.path) if is_url else path
        absolute = str(Path(local).absolute())
        return LocalFileSystem(), absolute if default == _LOCAL else f"{_LOCAL}:{absolute}"
    files = HadoopFileSystem(spark)
    return files, path.rstrip("/") if parts.scheme == scheme else files.qualified(path)


def find_paths(spark: SparkSession, path: str) -> list[str]:
    """Return a path if present, else the paths matching it as a glob, in Spark's form."""
    file_system, place = file_system_for(spark, path)
    if file_system.exists(place):
        return [place]
    found = HadoopFileSystem(spark).matches(place)
    return (
        found if place.startswith(f"{_LOCAL}:") else [at.removeprefix(f"{_LOCAL}:") for at in found]
    )


def local_name(path: str) -> str:
    """Return a path without the scheme of local disks, for errors."""
    return re.sub(f"^{_LOCAL}:/+", "/", path)


def escape_glob(path: str) -> str:
    """Return a glob for exactly the path."""
    return _GLOB.sub(r"\\\g<0>", path)


class LocalFileSystem:
    """The local disks of the machine. Raises OSError.

    Paths may begin with `file:`, which Spark needs with another default.
    """

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none if missing."""
        try:
            return sorted(child.name for child in _local(path).iterdir())
        except FileNotFoundError:
            return []

    def sizes(self, path: str) -> dict[str, int]:
        """Return the files of a directory, in bytes; none if missing."""
        try:
            with os.scandir(_local(path)) as found:
                sizes = {entry.name: _size_of(entry) for entry in found}
        except FileNotFoundError:
            return {}
        return {name: size for name, size in sizes.items() if size is not None}

    def size(self, path: str) -> int | None:
        """Return the bytes of a file, None for a directory."""
        return None if _local(path).is_dir() else _local(path).stat().st_size

    def place(self, path: str) -> str:
        """Return the path without links."""
        return os.path.realpath(_local(path))

    def exists(self, path: str) -> bool:
        """Tell whether a path exists."""
        return _local(path).exists()

    def read(self, path: str) -> str:
        """Return the text of a file."""
        return _local(path).read_text(encoding="utf-8")

    def create(self, path: str, text: str) -> bool:
        """Create a file atomically with its directories; False, and no change, if it exists.

        Of several callers with the same name, one gets True.
        """
        hidden = _local(_hidden(path))
        hidden.parent.mkdir(parents=True, exist_ok=True)
        hidden.write_text(text, encoding="utf-8")
        try:
            os.link(hidden, _local(path))  # unlike a rename, refuses a used name
        except FileExistsError:
            return False
        finally:
            hidden.unlink()
        return True

    def move(self, source: str, target: str) -> None:
        """Rename a file, replacing `target`; ignore a missing `source`."""
        _local(target).parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            _local(source).replace(_local(target))

    def move_new(self, source: str, target: str) -> bool:
        """Rename a file, unless `target` exists or `source` is missing; True if renamed."""
        _local(target).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(_local(source), _local(target))
        except (FileExistsError, FileNotFoundError):
            return False
        _local(source).unlink(missing_ok=True)
        return True

    def delete(self, path: str) -> None:
        """Delete a file or a whole directory, if present."""
        try:
            _local(path).unlink(missing_ok=True)
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(_local(path), ignore_errors=True)


class HadoopFileSystem:
    """The file systems known to Spark, through its Java process. Raises OSError, Spark's errors.

    `create` is as atomic as the file system's rename: HDFS refuses a used name, object stores check
    first and rename then.
    """

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        # By whole names: Java would look for each part of a name in all of Spark's archives.
        self._path: Any = getattr(context._jvm, "org.apache.hadoop.fs.Path")
        self._texts: Any = getattr(context._jvm, "org.apache.commons.io.IOUtils")
        self._conf: Any = context._jsc.hadoopConfiguration()

    def qualified(self, path: str) -> str:
        """Return a path with scheme and authority, without a last slash."""
        system, at = self._at(path)
        return str(system.makeQualified(at).toString())

    def names(self, path: str) -> list[str]:
        """See `LocalFileSystem`."""
        system, at = self._at(path)
        if not system.exists(at):
            return []
        return sorted(str(status.getPath().getName()) for status in system.listStatus(at))

    def sizes(self, path: str) -> dict[str, int]:
        """See `LocalFileSystem`."""
        system, at = self._at(path)
        found = system.listStatus(at) if system.exists(at) else ()
        return {str(one.getPath().getName()): int(one.getLen()) for one in found if one.isFile()}

    def size(self, path: str) -> int | None:
        """See `LocalFileSystem`."""
        system, at = self._at(path)
        status = system.getFileStatus(at)
        return None if status.isDirectory() else int(status.getLen())

    def place(self, path: str) -> str:
        """See `LocalFileSystem`; there are no links."""
        return path

    def matches(self, glob: str) -> list[str]:
        """Return the paths that match a glob, sorted."""
        system, at = self._at(glob)
        return sorted(str(one.getPath().toString()) for one in system.globStatus(at) or ())

    def exists(self, path: str) -> bool:
        """See `LocalFileSystem`."""
        system, at = self._at(path)
        return bool(system.exists(at))

    def read(self, path: str) -> str:
        """See `LocalFileSystem`."""
        system, at = self._at(path)
        stream = system.open(at)
        try:
            return str(self._texts.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def create(self, path: str, text: str) -> bool:
        """See `LocalFileSystem`."""
        system, at = self._at(path)
        _, hidden = self._at(_hidden(path))
        stream = system.create(hidden, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        # Hadoop's rename on a local disk overwrites.
        done = not system.exists(at) and bool(system.rename(hidden, at))
        if not done:
            system.delete(hidden, False)
        return done

    def move(self, source: str, target: str) -> None:
        """See `LocalFileSystem`."""
        system, old = self._at(source)
        _, new = self._at(target)
        if system.exists(old):
            system.mkdirs(new.getParent())
            # Object stores copy: an unfinished copy may be in the way.
            system.delete(new, False)
            if not system.rename(old, new):
                raise OSError(f"{source}: cannot be renamed to {target}")

    def move_new(self, source: str, target: str) -> bool:
        """See `LocalFileSystem`."""
        system, old = self._at(source)
        _, new = self._at(target)
        if not system.exists(old) or system.exists(new):
            return False
        system.mkdirs(new.getParent())
        return bool(system.rename(old, new))

    def delete(self, path: str) -> None:
        """See `LocalFileSystem`."""
        system, at = self._at(path)
        system.delete(at, True)

    def _at(self, path: str) -> tuple[Any, Any]:
        at = self._path(path)
        return at.getFileSystem(self._conf), at


FileSystem: TypeAlias = LocalFileSystem | HadoopFileSystem


def _size_of(entry: os.DirEntry[str]) -> int | None:
    """Return the bytes of a file; None for a directory, and for a file deleted meanwhile."""
    try:
        return entry.stat().st_size if entry.is_file() else None
    except FileNotFoundError:
        return None


def _local(path: str) -> Path:
    return Path(path.removeprefix(f"{_LOCAL}:"))


def _hidden(path: str) -> str:
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.{secrets.token_hex(8)}{_TMP}"
