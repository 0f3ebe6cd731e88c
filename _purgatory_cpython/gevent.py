"""refuse_gevent: a clear error where gevent has replaced the threads of the process.

With `gevent.monkey.patch_all()` a wait for a lock of C stops all greenlets: no timer would fire,
and messages would wait for ever. Any thread.
"""

import sys

# Threads and their locks, and the polls of sockets.
PATCHED = ("threading", "_thread", "select")


def refuse_gevent(error: type[Exception]) -> None:
    """Raise `error` if gevent has patched threads or polls."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None:
        return
    patched = [name for name in PATCHED if monkey.is_module_patched(name)]
    if patched:
        raise error(
            f"gevent has patched {', '.join(patched)}: timer-purgatory needs the threads of the "
            "system. Run it in a process without gevent.monkey, or use a client of its HTTP gateway"
        )
