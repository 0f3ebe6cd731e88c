"""Imports what an optional extra brings, when a command runs and not before.

So the command line works, and starts quickly, without the extras. Called from the main thread.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from purgatory.errors import PurgatoryError


class ExtraMissing(PurgatoryError):
    """Raised when a package of an extra is not installed; the message says how to install it."""


def import_extra(module: str, extra: str) -> ModuleType:
    """Import a module that needs the packages of an extra.

    Raises `ExtraMissing` when one of them is not installed. A module of this project that is
    missing is a defect, and raises ModuleNotFoundError.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "purgatory":
            raise
        raise ExtraMissing(
            f"this needs {missing}: pip install 'timer-purgatory[{extra}]'"
        ) from error
