"""The build mode: asked in few places; and whether `setdefault` fails safely on this Python."""

import ast
import subprocess
import sys

import pytest

from _purgatory_cpython.atomicity import SETDEFAULT_FAILS_SAFELY
from scripts.draw_architecture import ROOT

PACKAGES = ("_purgatory_cpython", "timingwheel", "mq", "purgatory")
MODES = {"COMPILED", "ATOMIC_SECTIONS", "LOCKED_SECTIONS"}
MOST_BRANCHES = 40

# A dict that is full; in a process of its own, which such a dict may crash.
PROGRAM = """
import _testcapi

full = {n: n for n in range(5)}
_testcapi.set_nomemory(0)
try:
    full.setdefault(5, 5)
except (MemoryError, SystemError):
    pass
_testcapi.remove_mem_hooks()
print(len(full))
"""


def test_a_dict_that_cannot_grow():
    """It has the entries that it had, or one is counted that is not there."""
    pytest.importorskip("_testcapi", reason="this Python cannot let allocations fail")
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == (5 if SETDEFAULT_FAILS_SAFELY else 6)


def branches(path):
    """Yield the line of each `if` and conditional expression that reads a build mode."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            names = {part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)}
            if names & MODES:
                yield node.lineno


def test_the_build_mode_is_asked_in_few_places():
    """Code that differs by the build is behind a helper or in a class of its own."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for line in branches(path)
    ]
    assert 0 < len(found) <= MOST_BRANCHES, found
