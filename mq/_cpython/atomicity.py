"""COMPILED, GIL and ATOMIC_SECTIONS: how this package runs, and what may be relied on.

Compiled code is *atomic* between two of its calls into the interpreter: no other thread, no
signal handler and no finalizer comes in between, because all of these wait for the interpreter,
which such code holds on to.  A pipe relies on that instead of taking its lock where
`ATOMIC_SECTIONS` says that it may.  A Python without the global interpreter lock gives no such
promise, and interpreted code is interruptible between any two lines.
"""

import sys
from typing import Final

# Whether this is the compiled package; the interpreted one behaves the same, slower.
COMPILED: Final[bool] = not __file__.endswith(".py")

# Whether one thread runs at a time, so that all see what it does in the order it is done.  False on
# a free-threaded Python even while its lock is on: perhaps only while an extension is imported.
GIL: Final[bool] = "t" not in sys.abiflags

ATOMIC_SECTIONS: Final[bool] = COMPILED and GIL
