"""The JVM's timers as contestants: Netty's HashedWheelTimer and the JDK's scheduled executor.

`Bench.java` does the work; this module starts it. Netty comes inside PySpark, and Java is the one
that Spark would use. If that Java has no compiler, Janino compiles, which comes inside PySpark too.
"""

import atexit
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from purgatory.spark.errors import JavaNotFound
from purgatory.spark.java import find_java

PEERS = ("netty", "jdk")
SOURCE = Path(__file__).with_name("Bench.java")
# The same size from the start, or the growth of the heap would be measured.
HEAP = ("-Xms3g", "-Xmx3g")


class NoJvm(Exception):
    """There is no Java, or no PySpark, on this machine; the message says which."""


def command(kind: str, peer: str, count: int, warm: int, rest: Sequence[object] = ()) -> list[str]:
    """Return the command for one measurement; see `Bench.java`. Raises NoJvm."""
    return [*_launcher(), *map(str, (kind, peer, count, warm, *rest))]


def version() -> str:
    """Return the version of the Java that is used, in a few words. Raises NoJvm."""
    java = _java()
    said = subprocess.run([java, "-version"], check=True, capture_output=True, text=True).stderr
    return said.splitlines()[0]


@cache
def _launcher() -> tuple[str, ...]:
    java = _java()
    asked = [java, "--list-modules"]
    modules = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    if "jdk.compiler@" in modules:
        netty = _jars("netty-common")
        return (java, *HEAP, "-cp", f"{_compiled(java, netty)}{os.pathsep}{netty}", SOURCE.stem)
    path = _jars("netty-common", "janino", "commons-compiler")
    compiler = "org.codehaus.janino.SimpleCompiler"
    return (java, *HEAP, "-cp", path, compiler, str(SOURCE), SOURCE.stem)


def _compiled(java: str, path: str) -> str:
    """Compile once for all measurements of this process; return the directory."""
    directory = tempfile.mkdtemp(prefix="purgatory-bench-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    compiler = "jdk.compiler/com.sun.tools.javac.Main"
    subprocess.run([java, "-m", compiler, "-d", directory, "-cp", path, str(SOURCE)], check=True)
    return directory


def _java() -> str:
    try:
        return str(find_java() / "bin" / "java")
    except JavaNotFound as error:
        raise NoJvm(str(error)) from error


def _jars(*names: str) -> str:
    """Return a class path of jars that come inside PySpark."""
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise NoJvm("PySpark, which brings Netty, is not installed")
    found = [sorted(Path(package.origin).parent.glob(f"jars/{name}-[0-9]*.jar")) for name in names]
    if not all(found):
        raise NoJvm(f"PySpark brings no {' or '.join(names)}")
    return os.pathsep.join(str(jars[-1]) for jars in found)
