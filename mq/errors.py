"""Errors: ZMQError and its kin, named and numbered as pyzmq has them.

Who may use it: everybody.  Every error carries an ``errno``; the commonest have
classes of their own.
"""

import errno as _errno
import os

#: ZeroMQ numbers its own errors from here.
HAUSNUMERO = 156384712

EFSM = HAUSNUMERO + 51
ENOCOMPATPROTO = HAUSNUMERO + 52
ETERM = HAUSNUMERO + 53
EMTHREAD = HAUSNUMERO + 54

_OWN_TEXTS = {
    EFSM: "Operation cannot be accomplished in current state",
    ENOCOMPATPROTO: "The protocol is not compatible with the socket type",
    ETERM: "Context was terminated",
    EMTHREAD: "No thread available",
}


def strerror(errno: int) -> str:
    """The text of error number `errno`, ZeroMQ's own included."""
    return _OWN_TEXTS.get(errno) or os.strerror(errno)


class ZMQBaseError(Exception):
    """Root of all errors of this package."""


class ZMQError(ZMQBaseError):
    """What an operation failed with: `errno` and `strerror`."""

    errno: int | None = None
    strerror: str

    def __init__(self, errno: int | str | None = None, msg: str | None = None) -> None:
        if isinstance(errno, int):
            self.errno = errno
            self.strerror = msg or strerror(errno)
        else:
            self.strerror = msg or str(errno)
        super().__init__(errno, msg)

    def __str__(self) -> str:
        return self.strerror

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.strerror!r})"


class Again(ZMQError):
    """EAGAIN: nothing to receive, or no room to send, in the time given."""

    def __init__(self, errno: int | str | None = _errno.EAGAIN, msg: str | None = None) -> None:
        super().__init__(errno, msg)


class ContextTerminated(ZMQError):
    """ETERM: the context was terminated; nothing but closing the socket is left to do."""

    def __init__(self, errno: int | str | None = ETERM, msg: str | None = None) -> None:
        super().__init__(errno, msg)


class InterruptedSystemCall(ZMQError, InterruptedError):  # type: ignore[misc]
    """EINTR, for those who catch it; calls here are resumed after a signal."""

    def __init__(self, errno: int | str | None = _errno.EINTR, msg: str | None = None) -> None:
        super().__init__(errno, msg)


class MailboxClosed(ZMQError):
    """The mailbox was closed, or belongs to the process this one was forked from."""

    def __init__(self, errno: int | str | None = _errno.ENOTSOCK, msg: str | None = None) -> None:
        super().__init__(errno, msg)


class ZMQBindError(ZMQBaseError):
    """`bind_to_random_port` found no free port."""


class NotDone(ZMQBaseError):
    """A `MessageTracker` waited in vain for its messages to be let go."""


_SPECIAL: dict[int, type[ZMQError]] = {
    _errno.EAGAIN: Again,
    _errno.EINTR: InterruptedSystemCall,
    ETERM: ContextTerminated,
}


def make_error(errno: int, msg: str | None = None) -> ZMQError:
    """The error for `errno`, of the class made for it."""
    return _SPECIAL.get(errno, ZMQError)(errno, msg)
