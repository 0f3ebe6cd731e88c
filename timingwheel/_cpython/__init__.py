"""All that timingwheel knows of CPython: atomic sections, mypyc, the cycle collector, the GIL.

Nothing here imports another part of the package.
"""
