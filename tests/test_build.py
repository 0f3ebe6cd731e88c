"""The build: without a compiler, or on request, it installs plain Python and says so."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.tags import sys_tags

ROOT = Path(__file__).parents[1]
NEEDED = [
    "MANIFEST.in",
    "setup.py",
    "scripts",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "docs",
    "examples",
    "_purgatory_cpython",
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


def pip_wheel(source, out, *options, **environment):
    """Let pip build a wheel of a tree or an archive into `out`; return its path and the log."""
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-v", *options]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", out, source],
        cwd=out.parent,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    (wheel,) = out.glob("*.whl")
    return wheel, said


def build(tree, **environment):
    """Build a wheel; return the names in it, its metadata, its tags and the log."""
    wheel, said = pip_wheel(tree, tree.parent / "dist", **environment)
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
        (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
        metadata, tags = (content.read(f"{info}/{name}").decode() for name in ("METADATA", "WHEEL"))
    assert wheel.stem.removeprefix(f"{info.removesuffix('.dist-info')}-") in tags
    return names, metadata, tags, said


def assert_pure(names, tags):
    """Assert that the wheel is plain Python, and says so to every installer."""
    assert [name for name in names if name.endswith("timingwheel/bucket.py")]
    assert not [name for name in names if name.endswith(".so")]
    assert "Root-Is-Purelib: true" in tags
    assert re.findall(r"^Tag: (.*)$", tags, re.MULTILINE) == ["py3-none-any"]


def test_without_a_compiler(tree):
    """Without a compiler the install succeeds, and -v says that it is plain Python."""
    names, _, tags, said = build(tree, CC=str(tree / "no-such-compiler"), PURGATORY_PURE="0")
    assert_pure(names, tags)
    assert re.search("cannot compile .*no-such-compiler.*; installing plain Python", said)
    assert "mypyc cannot compile it" not in said  # because of missing packages


def test_pure_on_request(tree):
    """With PURGATORY_PURE=1 nothing is compiled; the wheel has the pages, without dead links."""
    names, metadata, tags, said = build(tree, PURGATORY_PURE="1")
    assert_pure(names, tags)
    assert "PURGATORY_PURE is set; installing plain Python" in said
    assert [name for name in names if name.endswith("share/doc/timer-purgatory/howto/leases.md")]
    assert [name for name in names if name.endswith("share/doc/timer-purgatory/examples/timer.py")]
    assert "# timer-purgatory" in metadata
    assert not re.findall(
        r"\]\((?!\w+:)", metadata
    )  # links to files of the tree lead nowhere there


@pytest.fixture
def sdist(tree):
    """Pack the sources as a package index has them."""
    subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", tree.parent],
        cwd=tree,
        env={**os.environ, "PURGATORY_PURE": "1"},
        capture_output=True,
        check=True,
        timeout=60,
    )
    (archive,) = tree.parent.glob("*.tar.gz")
    return archive


def test_what_pip_keeps_of_a_pure_build(sdist, tmp_path):
    """pip's cache prefers what is compiled, and keeps a pure wheel only if it may.

    Nothing in the package can keep pip from serving the pure wheel of a former install: the key of
    its cache has the source and the Python, not the environment.
    """
    cache = tmp_path / "cache"

    def install(name, *options):
        (out := tmp_path / name / "wheels").mkdir(parents=True)
        options = ["--no-index", "--find-links", sdist.parent, *options]
        environment = {"PIP_CACHE_DIR": str(cache), "PURGATORY_PURE": "1"}
        wheel, said = pip_wheel("timer-purgatory", out, *options, **environment)
        return wheel, "PURGATORY_PURE is set" in said

    _, was_built = install("uncached", "--no-cache-dir")
    assert was_built
    assert not [*cache.glob("**/*.whl")]
    pure, was_built = install("first")
    assert was_built
    (kept,) = cache.glob("**/*.whl")
    assert kept.name == pure.name
    assert kept.stem.endswith("-py3-none-any")

    shutil.copy(kept, kept.with_name(kept.name.replace("py3-none-any", compiled_tag())))
    found, was_built = install("cached")
    assert not was_built
    assert compiled_tag() in found.name
    fresh, was_built = install("fresh", "--no-cache-dir")
    assert was_built
    assert fresh.name == pure.name


def compiled_tag():
    """Return the tag of a wheel compiled here."""
    return str(next(sys_tags()))
