"""Every snippet of the README and the docs does what it says; see `test_docs_commands`, too."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.draw_architecture import LEAVES_AND_ROOF
from tests.testing.java import SHORT_LIVED_OPTIONS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
DIARY = ROOT / "benchmarks" / "DIARY.md"  # its commands are those of the benchmarks
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# The pages with commands that no test runs (marked `sh`), and the reasons.
NOT_RUN = {
    "CONTRIBUTING.md": "CI runs these itself",
    "docs/high-availability.md": "needs a PostgreSQL; test_the_drill_of_two_servers runs the drill",
    "docs/performance.md": "benchmarks take half an hour; tests/benchmarks runs each for a moment",
    "docs/spark.md": "needs a cluster",
}


def blocks(language):
    """Return the fenced blocks of a language as test parameters named by page and line."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in FENCE.finditer(text):
            if match[1] == language:
                line = text.count("\n", 0, match.start()) + 1
                found.append(pytest.param(match[2], id=f"{name_of(page)}:{line}"))
    return found


def text_of(page):
    """Return a page as one line."""
    return " ".join((ROOT / page).read_text().split())


def name_of(page):
    """Return the path of a page in the tree."""
    return str(page.relative_to(ROOT))


def environment():
    """Return the environment of a user; Java is set up for short runs."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    java = {"SPARK_SUBMIT_OPTS": SHORT_LIVED_OPTIONS}
    return os.environ | java | {"PATH": path, "PYTHONPATH": str(ROOT)}


# One of them starts Spark: seconds on an idle machine, minutes on a busy one.
@pytest.mark.timeout(420)
@pytest.mark.parametrize("snippet", blocks("python"))
def test_snippet_runs(snippet, tmp_path):
    """Each snippet of Python runs without an error or warning."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", snippet],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=400,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_command_hides_that_it_failed(page):
    """Curl returns 0 for an answer that is an error, unless it is told to fail."""
    for command in re.findall(r"^.*\bcurl -.*$", page.read_text(), re.MULTILINE):
        assert "--fail" in command


def test_the_example_prints_what_its_comments_say(tmp_path):
    """The first snippet of the README prints the values in its comments."""
    snippet = FENCE.search((ROOT / "README.md").read_text())[2]
    done = subprocess.run(
        [sys.executable, "-c", snippet],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert done.stdout.splitlines() == [
        "accepted {'paid:17': 12.5, 'packed:17': 'box 4'}",
        "not completed within 50 ms: needed 1 of 'order:18'",
    ]


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_two_commands_are_run_by_ci(command):
    """The README names them, the Makefile has them, CI runs them."""
    assert f"`{command}`" in (ROOT / "README.md").read_text()
    assert f"\n{command.split()[1]}:" in (ROOT / "Makefile").read_text()
    assert re.search(rf"^step .* {command}$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", [*PAGES, DIARY], ids=name_of)
def test_links_lead_somewhere(page):
    """Every relative link of a page names a file."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_a_snippet_is_run_or_says_why_not():
    """Each fenced block is run, is not code, or is on a page listed in NOT_RUN."""
    languages = {
        (name_of(page), match[1]) for page in PAGES for match in FENCE.finditer(page.read_text())
    }
    others = {each for each in languages if each[1] not in {"python", "console", "toml"}}
    assert others == {(page, "sh") for page in NOT_RUN}


def test_the_contributors_commands_exist():
    """Each `make` command of the guide is a target."""
    commands = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text()))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert commands
    assert commands <= targets


def test_the_tree_names_no_package_index():
    """Programs and pages work with any index, so no address of one is written down."""
    addresses = [f"{index}.org" for index in ("pypi", "pythonhosted")]
    for top in (".ci", "docs", "examples", "scripts", *LEAVES_AND_ROOF, "."):
        for path in (ROOT / top).glob("*" if top == "." else "**/*"):
            if path.is_file() and path.suffix not in {".pyc", ".so"}:
                text = path.read_text(encoding="utf-8", errors="replace")
                assert not any(address in text for address in addresses), path
