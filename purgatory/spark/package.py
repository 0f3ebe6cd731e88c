"""The zip and the program for spark-submit. Any thread may call."""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from purgatory.trace.path_conflicts import check_writable

ZIP_NAME: Final = "purgatory.zip"
PROGRAM_NAME: Final = "purgatory_main.py"

# The package and its imports, without PySpark and pyarrow, present on the cluster: all pure Python.
# The parts of rich for tables and progress import no other package.
_PACKAGES: Final = (
    "_purgatory_cpython",
    "mq",
    "prometheus_client",
    "purgatory",
    "rich",
    "sortedcontainers",
    "timingwheel",
)
# Built for one Python on one machine; their sources are in the zip, too.
_EXCLUDED_SUFFIXES: Final = (".so", ".pyd", ".pyc")

_PROGRAM: Final = '''\
"""What spark-submit runs: the command line `purgatory spark ...`, from the zip beside it."""

import sys

from purgatory.cli import main

code = main(["spark", *sys.argv[1:]])
if code:
    sys.exit(code)
'''


def write_package(directory: Path) -> tuple[Path, Path]:
    """Write the zip and the program for spark-submit; return their paths.

    Makes `directory`, and replaces the files; raises PathConflict if one is read-only. The same
    packages give the same bytes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    archive, program = directory / ZIP_NAME, directory / PROGRAM_NAME
    for path in (archive, program):
        check_writable(path, str(path))
    draft = directory / f".{ZIP_NAME}.{os.getpid()}.tmp"
    try:
        # An interrupt leaves a zip that can be read, without all files.
        _write_zip(draft)
        draft.replace(archive)
    finally:
        draft.unlink(missing_ok=True)
    program.write_text(_PROGRAM, encoding="utf-8")
    return archive, program


def _write_zip(path: Path) -> None:
    with ZipFile(path, "w", ZIP_DEFLATED) as out:
        for name in _PACKAGES:
            for file, inside in _package_files(name):
                out.writestr(ZipInfo(inside), file.read_bytes(), ZIP_DEFLATED)


def _package_files(package: str) -> Iterator[tuple[Path, str]]:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"no package {package}", name=package)
    root = Path(spec.submodule_search_locations[0])
    for file in sorted(root.rglob("*")):
        if file.is_file() and file.suffix not in _EXCLUDED_SUFFIXES:
            yield file, f"{package}/{file.relative_to(root).as_posix()}"
