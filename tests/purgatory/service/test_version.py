"""The version of the package, where it is installed and where it is not."""

import importlib.metadata

from purgatory.service import version


def test_where_it_is_not_installed(monkeypatch):
    """A tree without its metadata has no version, and says so."""
    assert version.package_version() == importlib.metadata.version("timer-purgatory")

    def fail(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", fail)
    assert version.package_version() == "(not installed)"
