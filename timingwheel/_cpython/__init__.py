"""What timingwheel needs to know of CPython: atomic sections, mypyc, the cycle collector."""
