"""The Makefile names files of the tree."""

import subprocess

import pytest

from scripts.draw_architecture import ROOT


@pytest.mark.parametrize(("target", "least"), [("test-compiled", 40), ("test-quick", 20)])
def test_what_is_left_out_is_there(target, least):
    """Each path that a part of the tests leaves out is a file or a folder of tests."""
    command = ["make", "--dry-run", "--always-make", target]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60).stdout
    words = shown.split()
    left_out = [word.partition("=")[2] for word in words if word.startswith("--ignore=")]
    assert len(left_out) > least
    assert [path for path in left_out if not (ROOT / path).exists()] == []
