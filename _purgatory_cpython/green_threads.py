"""refuse_green_threads: a clear error where gevent or eventlet has replaced the process's threads.

With `gevent.monkey.patch_all()` a wait for a lock of C stops all greenlets: no timer would fire,
and messages would wait for ever. Any thread.
"""

import sys

# Of each library the module that patches, its question, and the threads, locks and polls in it.
LIBRARIES = (
    ("gevent.monkey", "is_module_patched", ("threading", "_thread", "select")),
    ("eventlet.patcher", "is_monkey_patched", ("thread", "select")),
)


def refuse_green_threads(error: type[Exception]) -> None:
    """Raise `error` if gevent or eventlet has patched threads or polls."""
    for module, question, names in LIBRARIES:
        is_patched = getattr(sys.modules.get(module), question, lambda _: False)
        patched = [name for name in names if is_patched(name)]
        if patched:
            library = module.partition(".")[0]
            raise error(
                f"{library} has patched {', '.join(patched)}: timer-purgatory needs the threads of "
                f"the system. Run it in a process that {library} does not patch, or use a client "
                "of its HTTP gateway"
            )
