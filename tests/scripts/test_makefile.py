"""The Makefile names files of the tree."""

import subprocess

from scripts.draw_architecture import ROOT


def test_what_is_not_tested_compiled_is_there():
    """Each path that `make test-compiled` leaves out is a file or a folder of tests."""
    command = ["make", "--dry-run", "--always-make", "test-compiled"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60).stdout
    words = shown.split()
    left_out = [word.partition("=")[2] for word in words if word.startswith("--ignore=")]
    assert len(left_out) > 40
    assert [path for path in left_out if not (ROOT / path).exists()] == []
