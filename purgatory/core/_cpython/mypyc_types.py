"""Types and decorators that mypyc understands; interpreted, they do nothing.

The same as in `timingwheel._cpython.mypyc_types`, which is private to that package.
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
