"""What the commands of the service share, and how they reach its modules only when they run.

A command imports nothing of the extra itself, so that the command line works, and is quick, without
it. Called from the main thread.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from purgatory.service.errors import ServiceError


class ExtraMissing(ServiceError):
    """A package of the extra is not installed; the message says how to install it."""


def implementation(name: str) -> ModuleType:
    """Import a module of the service. Raises ExtraMissing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "purgatory":
            raise
        raise ExtraMissing(
            f"this needs {missing}: pip install 'timer-purgatory[service]'"
        ) from error
