"""Detects packages of other distributions with names of the project's packages.

pip lets one distribution overwrite the packages of another. `purgatory` imports this module first.
"""

from types import ModuleType

import mq
import timingwheel  # in a subinterpreter it refuses to be loaded, if compiled


def refuse_foreign(module: ModuleType, own_name: str) -> None:
    """Raise ImportError unless a package defines `own_name`."""
    if not hasattr(module, own_name):
        raise ImportError(
            f"{module.__file__ or module.__name__} belongs to another distribution; "
            f"expected the package {module.__name__!r} of timer-purgatory: "
            "install only one of the two distributions in an environment"
        )


refuse_foreign(timingwheel, "COMPILED")
refuse_foreign(mq, "YPipe")
