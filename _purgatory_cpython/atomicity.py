"""COMPILED, GIL, ATOMIC_SECTIONS, LOCKED_SECTIONS: how this build runs, and its guarantees.

A *section* is code between two calls into the interpreter. Compiled, a section is atomic: no other
thread, no signal handler and no finalizer runs inside it, because all of these wait for the GIL,
which compiled code keeps until its next such call. Where `ATOMIC_SECTIONS` is True, some sections
rely on that instead of taking a lock (see `timingwheel.rwlock`, `mq.queues.ypipe`). A
free-threaded Python gives no such promise, whether its GIL is on now or not: it may be on only
while some extension is imported. Interpreted code releases the GIL between any two lines.

Where `LOCKED_SECTIONS` is True, the same sections take a lock that costs little (see `sections`).
"""

import sys
from typing import Final

# Whether this is the compiled build; the interpreted one behaves the same, slower.
COMPILED: Final[bool] = not __file__.endswith(".py")

# Whether threads run one at a time, so that all see a thread's effects in order.
GIL: Final[bool] = "t" not in sys.abiflags

ATOMIC_SECTIONS: Final[bool] = COMPILED and GIL

# Compiled for a free-threaded Python.
LOCKED_SECTIONS: Final[bool] = COMPILED and not GIL

# Whether a dict that cannot grow in `setdefault` stays in order. CPython 3.13.0 to 3.13.5 counts
# the entry that it has not inserted, and crashes when the dict grows later.
SETDEFAULT_FAILS_SAFELY: Final = not (3, 13) <= sys.version_info < (3, 13, 6)
