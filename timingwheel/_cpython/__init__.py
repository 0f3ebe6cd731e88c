"""All that timingwheel knows of CPython.

Atomic sections, mypyc, the cycle collector and the GIL.

Nothing here imports another part of the package, and every part imports something from here first:
so a subinterpreter is refused before it can load compiled code, which is for one interpreter.
"""

from contextlib import suppress
from importlib import import_module

with suppress(ModuleNotFoundError):  # only what is compiled has it
    import_module("._main_interpreter", __name__)
