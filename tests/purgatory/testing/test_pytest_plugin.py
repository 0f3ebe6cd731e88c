"""The plugin for pytest: its fixtures, in a program's tests."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CONFTEST = "from purgatory.testing.pytest_plugin import manual_purgatory, service_world\n"
TESTS = """
import pytest
from purgatory import OperationExpired


def test_in_process(manual_purgatory):
    future = manual_purgatory.defer("k", timeout=60)
    manual_purgatory.advance(60)
    with pytest.raises(OperationExpired):
        future.result(0)


def test_the_service(service_world):
    client = service_world.client("shop")
    future = client.defer("k", timeout=60)
    service_world.crash()
    client.complete("k", 1)
    assert future.result() == 1
"""


def test_the_fixtures(tmp_path):
    """Both work in a test file, without anything around it."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout
