"""All that timingwheel knows of CPython.

Atomic sections, mypyc, the cycle collector and the GIL.

Nothing here imports another part of the package.
"""
