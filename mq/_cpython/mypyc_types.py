"""Types for mypyc: machine integers, and attributes of classes.

The hot modules of this package are plain Python that mypyc compiles (setup.py says which). There
``i64`` is a number without an object around it; interpreted it is ``int``. ``mypyc_attr`` tells the
compiler something about a class; interpreted it does nothing. Both come from a package that is
needed for compiling and type checking only.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["i64", "mypyc_attr"]

if TYPE_CHECKING:
    from mypy_extensions import i64, mypyc_attr
else:
    i64 = int

    def mypyc_attr(**_: Any) -> Callable[[type], type]:
        """Leave the class as it is."""
        return lambda cls: cls
