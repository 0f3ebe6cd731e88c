"""The version of the package, where it is installed and where it is not."""

import importlib.metadata
import subprocess
import sys
import sysconfig
from pathlib import Path

import _purgatory_cpython
import mq
import purgatory
import timingwheel
from purgatory import version


def test_where_it_is_not_installed(monkeypatch):
    """A tree without its metadata has no version, and says so."""
    assert version.package_version() == importlib.metadata.version("timer-purgatory")

    def fail(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", fail)
    assert version.package_version() == "(not installed)"


def test_a_server_of_a_checkout(tmp_path):
    """A server with its live page starts where the package is on the path, and not installed."""
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "timer_purgatory" not in entry.name or entry.suffix == ".so":
            (tmp_path / entry.name).symlink_to(entry)
    for package in (_purgatory_cpython, mq, purgatory, timingwheel):
        place = Path(package.__file__).parent
        if not (tmp_path / place.name).exists():
            (tmp_path / place.name).symlink_to(place)
    options = ["--memory", "--bind", "tcp://127.0.0.1:0", "--http-bind", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-S", "-m", "purgatory", "serve", *options],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        line = process.stdout.readline()
        process.terminate()
        _, errors = process.communicate()
    assert (line.startswith("serving"), process.returncode) == (True, 0), line + errors
