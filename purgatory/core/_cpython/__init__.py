"""What the core needs for CPython and mypyc alone."""
