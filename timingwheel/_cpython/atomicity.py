"""COMPILED, ATOMIC_SECTIONS, LOCKED_SECTIONS: how this package runs, and what it may rely on.

A *section* is code between two calls into the interpreter. Compiled, a section is atomic: no other
thread, no signal handler and no finalizer runs inside it, because all of these wait for the GIL,
which compiled code keeps until its next such call. Where `ATOMIC_SECTIONS` is True, some sections
rely on that instead of taking a lock (see `locks.rwlock`). A free-threaded Python gives no such
promise, whether its GIL is on now or not: it may be on only while some extension is imported.
Interpreted code releases the GIL more often.

Where `LOCKED_SECTIONS` is True, the same sections take a lock that costs little (see
`free_threading`).
"""

import sys
from typing import Final

# Whether this is the compiled package; the interpreted one behaves the same, slower.
COMPILED: Final[bool] = not __file__.endswith(".py")

ATOMIC_SECTIONS: Final[bool] = COMPILED and "t" not in sys.abiflags

# Compiled for a free-threaded Python.
LOCKED_SECTIONS: Final[bool] = COMPILED and not ATOMIC_SECTIONS
