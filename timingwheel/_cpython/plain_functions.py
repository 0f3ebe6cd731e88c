"""is_plain_function: tells in one call what a timer may call without a further look.

Worth it: `schedule` takes 4100 instructions instead of 4380, with the same look at a callback in
compiled Python (callgrind).

Compiled only, as `gc_tracking`. Any thread.
"""

from typing import TYPE_CHECKING

from timingwheel._cpython.atomicity import COMPILED

if COMPILED and not TYPE_CHECKING:
    from timingwheel._cpython._plain_functions import is_plain_function
else:

    def is_plain_function(callback: object) -> bool:
        """Return whether it is known to be a function that is not async; False: look closer."""
        del callback
        return False
