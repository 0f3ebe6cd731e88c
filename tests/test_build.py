"""The build: without a compiler, or on request, the package is plain Python, and says so."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDED = [
    "setup.py",
    "build_docstrings.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "mq",
    "purgatory",
    "timingwheel",
]

pytestmark = pytest.mark.skipif(
    not (ROOT / "setup.py").exists(), reason="these tests are of the source tree, which is not here"
)


@pytest.fixture
def tree(tmp_path):
    """A copy of what is built, so that builds leave nothing behind here."""
    for name in NEEDED:
        source, target = ROOT / name, tmp_path / "tree" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
    return tmp_path / "tree"


def build(tree, **environment):
    """Build a wheel; what is in it, and what was said."""
    out = tree.parent / "dist"
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-v"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", out, "."],
        cwd=tree,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        return set(content.namelist()), said


def test_without_a_compiler(tree):
    """A compiler that is missing is no reason not to install; -v says why it is slower."""
    names, said = build(tree, CC=str(tree / "no-such-compiler"), PURGATORY_PURE="0")
    assert [name for name in names if name.endswith("timingwheel/bucket.py")]
    assert not [name for name in names if name.endswith(".so")]
    assert "installing plain Python" in said
    assert "mypyc cannot compile it" not in said  # for want of what is not installed


def test_pure_on_request(tree):
    """PURGATORY_PURE=1 asks for it."""
    names, said = build(tree, PURGATORY_PURE="1")
    assert [name for name in names if name.endswith("purgatory/core/operation.py")]
    assert not [name for name in names if name.endswith(".so")]
    assert "PURGATORY_PURE is set; installing plain Python" in said
