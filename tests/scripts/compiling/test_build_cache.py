"""build_cache keeps object files, each for what it was made of."""

import os
import time
from pathlib import Path

import pytest

from scripts.compiling.build_cache import compiled_once, remove_old


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a C file that includes another one."""
    monkeypatch.setenv("PURGATORY_BUILD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "part.c").write_text('#include "module.c"\n#include "Python.h"\n')
    (tmp_path / "module.c").write_text("int x;\n")
    return tmp_path / "cache"


def compile_it(directory, *options):
    """Compile as a build does; return whether the compiler ran."""
    target = directory / "build" / "part.o"
    ran = []

    def make():
        target.parent.mkdir(exist_ok=True)
        target.write_text(f"object {options}")
        ran.append(True)

    compiled_once(str(directory / "part.c"), ["cc"], options, str(target), make)
    assert target.read_text() == f"object {options}"
    target.unlink()
    return bool(ran)


@pytest.mark.usefixtures("cache")
def test_the_same_code_is_compiled_once(tmp_path):
    """Again only if a file that it includes has changed, or an option."""
    assert [compile_it(tmp_path), compile_it(tmp_path)] == [True, False]
    assert [compile_it(tmp_path, "-O1"), compile_it(tmp_path, "-O1")] == [True, False]
    (tmp_path / "module.c").write_text("int y;\n")
    assert [compile_it(tmp_path), compile_it(tmp_path)] == [True, False]


def test_without_a_cache(tmp_path, cache, monkeypatch):
    """Each build compiles, and nothing is kept."""
    monkeypatch.delenv("PURGATORY_BUILD_CACHE")
    assert [compile_it(tmp_path), compile_it(tmp_path)] == [True, True]
    assert not cache.exists()


def test_a_failure_keeps_nothing(tmp_path, cache):
    """What the compiler did not make is asked for again."""

    def fail():
        raise ValueError("no compiler")

    with pytest.raises(ValueError, match="no compiler"):
        compiled_once(str(tmp_path / "part.c"), ["cc"], [], str(tmp_path / "part.o"), fail)
    assert not cache.exists()


def test_what_no_build_uses_goes(tmp_path, cache):
    """After a month, and what is used stays."""
    compile_it(tmp_path)
    compile_it(tmp_path, "-O1")
    old, used = sorted(cache.iterdir())
    os.utime(old, (time.time() - 40 * 86_400,) * 2)
    remove_old()
    assert list(map(Path, cache.iterdir())) == [used]
