"""For tests of programs with a purgatory: time moved by the test, and faults at will.

`ServiceWorld` has a server and its clients in a simulated world; it needs the extra `simulation`.
`ManualPurgatory` is a purgatory without threads. pytest has both as fixtures: `service_world` and
`manual_purgatory`.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from purgatory.testing.manual_purgatory import ManualPurgatory
    from purgatory.testing.service_world import ServiceWorld

__all__ = ["ManualPurgatory", "ServiceWorld"]

# Imported at first use: pytest loads this package in all programs' tests.
_HOMES: Final = {"ManualPurgatory": "manual_purgatory", "ServiceWorld": "service_world"}

if not TYPE_CHECKING and importlib.util.find_spec("apsw") is None:  # as in `purgatory`
    __all__ = ["ManualPurgatory"]


if not TYPE_CHECKING:  # a misspelt name is an error to type checkers

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
