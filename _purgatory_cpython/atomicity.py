"""COMPILED, GIL, ATOMIC_SECTIONS, LOCKED_SECTIONS: how the build runs, and the guarantees.

A *section* is code between two calls into the interpreter. Compiled, a section is atomic: all other
threads, signal handlers and finalizers wait for the GIL, which compiled code keeps until the next
such call. Where `ATOMIC_SECTIONS` is True, some sections take no lock (see `timingwheel.rwlock`,
`mq.queues.ypipe`). A free-threaded Python gives no such promise: the GIL may be on temporarily.
Interpreted code releases the GIL between any two lines.

Where `LOCKED_SECTIONS` is True, the same sections take a cheap lock (see `sections`). Any thread.
"""

import sys
from typing import Final

# Interpreted code behaves the same, slower.
COMPILED: Final[bool] = not __file__.endswith(".py")

# Whether threads run in turn, so all see a thread's effects in order.
GIL: Final[bool] = "t" not in sys.abiflags

ATOMIC_SECTIONS: Final[bool] = COMPILED and GIL

# Compiled for a free-threaded Python.
LOCKED_SECTIONS: Final[bool] = COMPILED and not GIL

# CPython 3.13.0 to 3.13.5 crashes when a dict grows after a `setdefault` without memory.
SETDEFAULT_FAILS_SAFELY: Final = not (3, 13) <= sys.version_info < (3, 13, 6)
