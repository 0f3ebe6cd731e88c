"""Keep what the C compiler made, for the next build of the same code.

Only where `PURGATORY_BUILD_CACHE` names a directory, as the Makefile does. Files that no build of
the last month used are removed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

INCLUDED = re.compile(r'^#include "([\w./]+)"', re.MULTILINE)
MONTH_S = 30 * 86_400


def compiled_once(
    file: str,
    compiler: Sequence[str],
    arguments: Sequence[str],
    target: str,
    make: Callable[[], object],
) -> None:
    """Let `make` compile `file` to `target`, unless a former build has kept what it would make."""
    directory = os.environ.get("PURGATORY_BUILD_CACHE")
    if not directory:
        make()
        return
    kept = Path(directory) / f"{key_of(file, compiler, arguments)}.o"
    if kept.exists():
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept, target)
        kept.touch()
        return
    make()
    keep(Path(target), kept)


def key_of(file: str, compiler: Sequence[str], arguments: Sequence[str]) -> str:
    """Return a name for all that an object file depends on."""
    said = subprocess.run([compiler[0], "--version"], capture_output=True, check=False).stdout
    digest = hashlib.sha256(repr((compiler, arguments, said)).encode())
    digest.update(f"{sys.version}, mypy {version('mypy')}".encode())
    for each in with_included(Path(file)):
        digest.update(each.read_bytes())
    return digest.hexdigest()[:40]


def with_included(file: Path) -> Iterator[Path]:
    """Yield a C file and the files of its directory that it includes, each once."""
    seen = {file}
    waiting = [file]
    while waiting:
        each = waiting.pop()
        yield each
        for name in INCLUDED.findall(each.read_text(encoding="utf-8")):
            path = each.parent / name
            if path.exists() and path not in seen:
                seen.add(path)
                waiting.append(path)


def keep(made: Path, kept: Path) -> None:
    """Copy an object file into the cache, whole or not at all."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    unfinished = kept.with_suffix(f".{os.getpid()}")
    shutil.copyfile(made, unfinished)
    unfinished.replace(kept)


def remove_old() -> None:
    """Remove what no build has used for a month."""
    directory = os.environ.get("PURGATORY_BUILD_CACHE")
    if directory:
        for kept in Path(directory).glob("*.o"):
            if time.time() - kept.stat().st_mtime > MONTH_S:
                kept.unlink(missing_ok=True)
