"""Raises the limit of open files and sockets. The main thread calls it, before a server starts."""

import contextlib
import resource
from typing import Final

# Enough for any number of clients that a server has; some systems allow a billion.
_ENOUGH: Final = 65_536


def raise_descriptor_limit() -> None:
    """Let the process open as many files as the system allows it, within reason.

    Many systems allow 1024 unless a process asks for more; each connection takes one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # it goes on with fewer
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
