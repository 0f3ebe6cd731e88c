"""What timingwheel, mq and purgatory need of CPython, once. Private to the three.

`atomicity` (what this build may rely on), `sections` (locks that stand in for the GIL), `locks` and
`threads` (which interrupts leave in order), `fork`, `mypyc_types`; and the C headers that
`build_headers.py` puts into compiled code. Nothing here imports the three. What timingwheel alone
needs is in `timingwheel._cpython`.

Every package imports something from here first: so a subinterpreter is refused before it can load
compiled code, which is for one interpreter; and so is a process in which gevent has replaced the
threads.
"""

from contextlib import suppress
from importlib import import_module

from _purgatory_cpython.gevent import refuse_gevent

refuse_gevent(ImportError)

with suppress(ModuleNotFoundError):  # only what is compiled has it
    import_module("._main_interpreter", __name__)
