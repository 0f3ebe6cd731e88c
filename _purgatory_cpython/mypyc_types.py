"""i32, i64, u8 and mypyc_attr: tell mypyc about numbers and classes.

Where mypyc compiles (setup.py lists the modules) an `i64` is a number without an object around;
interpreted, an `int`. `mypyc_attr` sets a compiler option of a class.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["i32", "i64", "mypyc_attr", "u8"]

if TYPE_CHECKING:
    from mypy_extensions import i32, i64, mypyc_attr, u8
else:
    i32 = i64 = u8 = int

    def mypyc_attr(**_: Any) -> Callable[[type], type]:
        """Return a decorator without effect on the class."""
        return lambda cls: cls
