"""Refuses outputs that would replace an input, or become part of one, before a file is opened.

Files are compared by identity, through links and mounts. Any thread.
"""

import contextlib
import glob
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from purgatory.trace.errors import TraceError

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
_Identity: TypeAlias = tuple[int, int]


class PathConflict(TraceError):
    """Raised for an output that is an input, lies in one, or must not be replaced."""


class _Input(NamedTuple):
    name: str
    path: Path  # absolute, without links

    def files(self) -> set[_Identity | None]:
        below = self.path.rglob("*") if self.path.is_dir() else ()
        return {_identity(self.path), *map(_identity, below)} - {None}


def check_outputs(outputs: Mapping[str, object], inputs: Iterable[object]) -> None:
    """Raise `PathConflict` if an output would replace an input or become part of one.

    `outputs`: paths by the names of their arguments, or None. Paths may be Spark's: patterns, and
    URIs (compared by name if on other machines). An empty path raises, too.
    """
    sources = [str(path) for path in inputs if path is not None]
    _check_not_empty([("an input", path) for path in sources] + [*outputs.items()])
    found = [one for path in sources for one in _inputs(path)]
    for argument, path in outputs.items():
        if path is not None:
            _check_output(f"{argument} {path}", _local(str(path)), found)


def _check_not_empty(named: Iterable[tuple[str, object]]) -> None:
    for argument, path in named:
        if path is not None and not str(path):
            raise PathConflict(f"{argument}: the path is empty")


def file_to_replace(path: str | Path, name: str) -> Path:
    """Return the file that a rename may replace: the path without links.

    `name` begins the message of `PathConflict`, raised for an empty path, a read-only file, and
    anything but a regular file, such as a device.
    """
    if not str(path):
        raise PathConflict(f"{name}: the path is empty; expected the name of a file")
    target = Path(os.path.realpath(path))  # a link stays a link
    if target.exists() and not target.is_file():
        raise PathConflict(f"{name}: not a regular file")
    check_writable(target, name)
    return target


def keep_mode(target: Path, draft: Path) -> None:
    """Give a draft the mode of the file to replace, if any."""
    with contextlib.suppress(FileNotFoundError):
        draft.chmod(stat.S_IMODE(target.stat().st_mode))


def check_writable(path: str | Path, name: str) -> None:
    """Raise `PathConflict` for a read-only file, which a rename would replace."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:  # no file, or the writer will report the error
        return
    if stat.S_ISREG(mode) and not mode & 0o222:
        raise PathConflict(f"{name}: is read-only (mode {stat.S_IMODE(mode):04o})")


def _check_output(name: str, path: Path, inputs: list[_Input]) -> None:
    if path.is_dir():
        there = {_identity(child) for child in path.iterdir() if child.is_file()}
    else:
        there = {_identity(path)} - {None}
    above = {_identity(parent) for parent in path.parents}
    for found in inputs:
        if path == found.path or (there and not there.isdisjoint(found.files())):
            raise PathConflict(f"{name}: would replace the input {found.name}")
        if found.path in path.parents or _identity(found.path) in above - {None}:
            raise PathConflict(f"{name}: lies in the input {found.name}")
    check_writable(path, name)


def _inputs(text: str) -> list[_Input]:
    is_pattern = glob.has_magic(text) and not os.path.lexists(text)
    names = glob.glob(text) if is_pattern else []  # noqa: PTH207 - absolute ones, too
    return [_Input(name, _local(name)) for name in names or [text]]


def _local(text: str) -> Path:
    """Return the path without links; elsewhere with its scheme."""
    if os.path.lexists(text) or not _SCHEME.match(text):
        return Path(os.path.realpath(text))
    parts = urlsplit(text)
    if parts.scheme == "file":
        return Path(os.path.realpath(unquote(parts.path)))
    return Path(f"{parts.scheme}:", parts.netloc, *Path(os.path.normpath(parts.path)).parts[1:])


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino
