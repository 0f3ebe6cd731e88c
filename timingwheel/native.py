"""What mypyc needs to hear of our classes and numbers, and whether it has been at work.

The hot modules of this package are plain Python that mypyc compiles (setup.py says which). There
``i64`` is a number without an object around it; interpreted it is ``int``. ``mypyc_attr`` tells the
compiler something about a class; interpreted it does nothing. The names come from a package that is
needed for compiling and type checking only.

*Steps.* Compiled code runs between two of its calls as one step: no other thread, no signal handler
and no finalizer comes in between, because all of these wait for the interpreter, which such code
holds on to. Some sections rely on that instead of taking a lock (see ``rwlock``); `STEPS` says
whether they may. A Python built without the global interpreter lock gives no such promise, and
interpreted code lets others in more often.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mypy_extensions import i32 as i32
    from mypy_extensions import i64 as i64
    from mypy_extensions import mypyc_attr as mypyc_attr
else:
    i32 = i64 = int

    def mypyc_attr(**_: Any) -> Callable[[type], type]:
        """Leave the class as it is."""
        return lambda cls: cls


# Whether this is the compiled package; the interpreted one behaves the same, slower.
COMPILED: Final[bool] = not __file__.endswith(".py")
STEPS: Final[bool] = COMPILED and bool(getattr(sys, "_is_gil_enabled", lambda: True)())
