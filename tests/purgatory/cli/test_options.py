"""Importing what an extra brings."""

import sys

import pytest

from purgatory.cli.options import ExtraMissing, import_extra


def test_a_missing_package_names_the_extra(monkeypatch):
    """The message says what to install."""
    monkeypatch.setitem(sys.modules, "zmq", None)
    monkeypatch.delitem(sys.modules, "purgatory.service.platform", raising=False)
    with pytest.raises(ExtraMissing, match=r"needs zmq: pip install 'timer-purgatory\[service\]'"):
        import_extra("purgatory.service.platform", "service")


def test_a_missing_module_of_the_package_is_a_defect():
    """It is not reported as a missing extra."""
    with pytest.raises(ModuleNotFoundError):
        import_extra("purgatory.service.nothing", "service")
