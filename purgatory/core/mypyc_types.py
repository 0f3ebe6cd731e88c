"""What mypyc needs to hear of our numbers and classes; interpreted it says nothing.

See ``timingwheel._cpython.mypyc_types``, which is not for others.
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
