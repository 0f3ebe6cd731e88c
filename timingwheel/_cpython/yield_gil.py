"""breathe: where compiled loops let others run.

A compiled loop keeps the interpreter to itself until it calls something that is interpreted. So
this module is never compiled, and loops over many tasks call it after each portion.
"""


def yield_gil() -> None:
    """Let other threads and signal handlers have the interpreter, if they have waited for it."""
