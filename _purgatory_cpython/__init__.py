"""Code about CPython for timingwheel, mq and purgatory, and private to the three.

`atomicity` (guarantees of the build), `sections` (locks instead of the GIL), `locks` and `threads`
(safe under interrupts), `fork`, `at_exit`, `mypyc_types`; `build_headers.py` puts the C headers
into compiled code.

Every package imports this first: so a subinterpreter, and green threads, are refused before any
compiled code is loaded, which serves a single interpreter.
"""

from contextlib import suppress
from importlib import import_module

from _purgatory_cpython.green_threads import refuse_green_threads

refuse_green_threads(ImportError)

with suppress(ModuleNotFoundError):  # only compiled builds have it
    import_module("._main_interpreter", __name__)
