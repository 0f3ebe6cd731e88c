"""How commands reach what needs an extra, and only when they run. Called from the main thread."""

from __future__ import annotations

import importlib
from types import ModuleType

from purgatory.errors import PurgatoryError


class ExtraMissing(PurgatoryError):
    """A package of an optional extra is not installed; the message says how to install it."""


def implementation(name: str, extra: str) -> ModuleType:
    """Import a module of ours that uses packages of an extra. Raises ExtraMissing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "purgatory":
            raise
        raise ExtraMissing(
            f"this needs {missing}: pip install 'timer-purgatory[{extra}]'"
        ) from error
