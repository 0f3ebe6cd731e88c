"""Code about CPython for timingwheel, mq and purgatory, and private to the three.

`atomicity` (guarantees of the build), `sections` (locks instead of the GIL), `locks` and `threads`
(safe under interrupts), `fork`, `mypyc_types`; and the C headers, put into compiled code by
`build_headers.py`. Nothing here imports the three. Code for timingwheel alone is in
`timingwheel._cpython`.

Every package imports something from here first. So a subinterpreter is refused before loading
compiled code, which serves a single interpreter; likewise a process with gevent's threads.
"""

from contextlib import suppress
from importlib import import_module

from _purgatory_cpython.gevent import refuse_gevent

refuse_gevent(ImportError)

with suppress(ModuleNotFoundError):  # compiled builds have the module
    import_module("._main_interpreter", __name__)
