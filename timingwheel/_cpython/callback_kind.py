"""callback_kind: classifies a callable in one call.

See docs/mechanisms.md. Compiled only, as `gc_tracking`. Any thread.
"""

from typing import TYPE_CHECKING, Final

from _purgatory_cpython.atomicity import COMPILED

LOOK_CLOSER: Final = 0  # not known to be callable, or async, or a generator function
PLAIN: Final = 1  # a function or bound method whose call runs it
STATELESS: Final = 2  # a PLAIN function without references but to its module

if COMPILED and not TYPE_CHECKING:
    from timingwheel._cpython._native import callback_kind
else:

    def callback_kind(callback: object) -> int:
        """Return one of the kinds above."""
        del callback
        return LOOK_CLOSER
