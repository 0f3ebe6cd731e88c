"""yield_gil: where compiled loops let other threads run.

A compiled loop keeps the GIL until it calls something that is interpreted. So this module is never
compiled, and loops over many tasks call it after each batch.
"""


def yield_gil() -> None:
    """Release the GIL to threads and signal handlers that wait for it."""
