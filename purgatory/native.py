"""mypyc_attr: what mypyc needs to hear of our classes; interpreted it does nothing.

See ``timingwheel.native``, which is not for others.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["mypyc_attr"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(**_: Any) -> Callable[[type], type]:
        """Leave the class as it is."""
        return lambda cls: cls
