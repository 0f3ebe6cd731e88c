"""The build: without a compiler, or on request, it installs plain Python and says so."""

import os
import re
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
    "CHANGELOG.md",
    "LICENSE",
    "docs",
    "examples",
    "mq",
    "purgatory",
    "timingwheel",
]

pytestmark = pytest.mark.skipif(
    not (ROOT / "setup.py").exists(), reason="these tests are of the source tree, which is not here"
)


@pytest.fixture
def tree(tmp_path):
    """Copy the sources, so that builds leave nothing behind."""
    for name in NEEDED:
        source, target = ROOT / name, tmp_path / "tree" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
    return tmp_path / "tree"


def build(tree, **environment):
    """Build a wheel; return the names in it, its metadata and the log."""
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
        names = set(content.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        return names, content.read(metadata).decode(), said


def test_without_a_compiler(tree):
    """Without a compiler the install succeeds, and -v says that it is plain Python."""
    names, _, said = build(tree, CC=str(tree / "no-such-compiler"), PURGATORY_PURE="0")
    assert [name for name in names if name.endswith("timingwheel/bucket.py")]
    assert not [name for name in names if name.endswith(".so")]
    assert "installing plain Python" in said
    assert "mypyc cannot compile it" not in said  # because of missing packages


def test_pure_on_request(tree):
    """With PURGATORY_PURE=1 nothing is compiled; the wheel has the pages, without dead links."""
    names, metadata, said = build(tree, PURGATORY_PURE="1")
    assert [name for name in names if name.endswith("purgatory/core/operation.py")]
    assert not [name for name in names if name.endswith(".so")]
    assert "PURGATORY_PURE is set; installing plain Python" in said
    assert [name for name in names if name.endswith("share/doc/timer-purgatory/howto/leases.md")]
    assert [name for name in names if name.endswith("share/doc/timer-purgatory/examples/timer.py")]
    assert "# timer-purgatory" in metadata
    assert not re.findall(
        r"\]\((?!\w+:)", metadata
    )  # links to files of the tree lead nowhere there
