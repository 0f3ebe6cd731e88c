"""The format of a file, by its suffix, and the files of a directory.

A reader or writer belongs to one thread.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from purgatory.trace.errors import TraceError
from purgatory.trace.parquet_format import ParquetRowReader, ParquetRowWriter
from purgatory.trace.row_files import RowReader, RowWriter
from purgatory.trace.tables import Table, table_named
from purgatory.trace.text_formats import (
    READ_ERRORS,
    CsvRowReader,
    CsvRowWriter,
    JsonRowReader,
    JsonRowWriter,
)

_COMPRESSED: Final = ".gz"


class Format(NamedTuple):
    """The name, the reader and the writer of a kind of file."""

    name: str
    reader: Callable[[Path], RowReader]
    writer: Callable[[IO[bytes], Path, Table[Any]], RowWriter]
    compressible: bool = True


_CSV: Final = Format("csv", CsvRowReader, CsvRowWriter)
_JSON_LINES: Final = Format("json", JsonRowReader, JsonRowWriter)
_PARQUET: Final = Format("parquet", ParquetRowReader, ParquetRowWriter, compressible=False)
_BY_SUFFIX: Final = {
    ".parquet": _PARQUET,
    ".csv": _CSV,
    ".jsonl": _JSON_LINES,
    ".ndjson": _JSON_LINES,
    ".json": _JSON_LINES,
}


#: The known suffixes.
KNOWN: Final = ", ".join(_BY_SUFFIX)


def format_of(path: Path) -> Format:
    """Return the format of a file's suffix; TraceError if unknown."""
    found = find_format(path)
    if found is None:
        raise TraceError(
            f"{path}: the suffix must be one of {KNOWN}, or .gz after one of the text formats"
        )
    return found


def open_rows(path: Path) -> RowReader:
    """Open a file for reading; may raise `TraceError`."""
    reader = format_of(path).reader
    try:
        return reader(path)
    except TraceError:
        raise
    except READ_ERRORS as error:
        raise TraceError(f"{path}: {reason(error)}") from error


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """Return the file, or the files of a directory that have a known suffix, sorted by name.

    Skips hidden files and names that begin with an underscore. Takes files in partitions,
    `date=2026-11-21`. An empty directory named as a table has no files; another directory without
    files raises `TraceError`.
    """
    if not os.fspath(path):
        raise TraceError("the path of a table is empty; expected a file or a directory")
    path = Path(path)
    try:
        if not path.is_dir():
            path.stat()
            return [path]
        files = sorted(_parts(path))
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: {reason(error)}") from error
    if not files and not is_empty_table(path):
        raise TraceError(f"{path}: a directory without files of a trace in it")
    return files


def is_empty_table(path: Path) -> bool:
    """Tell whether a path is an empty directory with the name of a table.

    A server's new journal has these. Hidden names are unfinished files.
    """
    named = table_named(Path(os.path.abspath(path)).name)  # noqa: PTH100 - the name, not the link's
    return named is not None and path.is_dir() and not any(_visible(path))


def _visible(directory: Path, above: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Yield what a directory and its partitions hold, but no partitions.

    A link to a directory `above` would lead in circles.
    """
    above |= {os.path.realpath(directory)}
    for path in directory.iterdir():
        if path.name.startswith((".", "_")):
            continue
        if "=" in path.name and path.is_dir():
            if os.path.realpath(path) not in above:
                yield from _visible(path, above)
        else:
            yield path


def reason(error: Exception) -> str:
    """Return the reason of an error, on one line."""
    if isinstance(error, EOFError):
        return "damaged or cut short"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())


def find_format(path: Path) -> Format | None:
    """Return the format of a file's suffix, if known."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    compressed = suffixes[-1:] == [_COMPRESSED]
    if compressed:
        suffixes.pop()
    found = _BY_SUFFIX.get(suffixes[-1]) if suffixes else None
    return None if found and compressed and not found.compressible else found


def _parts(directory: Path) -> Iterator[Path]:
    return (
        path for path in _visible(directory) if find_format(path) is not None and path.is_file()
    )
