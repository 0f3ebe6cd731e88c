"""Errors of `mq`: pyzmq's classes, and one for mailboxes. Any thread."""

import os
from errno import EINTR
from typing import Any

from mq.constants import Errno

_MESSAGES = {
    Errno.EFSM: "Operation cannot be accomplished in current state",
    Errno.ENOCOMPATPROTO: "The protocol is not compatible with the socket type",
    Errno.ETERM: "Context was terminated",
    Errno.EMTHREAD: "No thread available",
}


def strerror(errno: int) -> str:
    """Return the message for `errno`, ZeroMQ's own numbers included."""
    message = _MESSAGES.get(errno)  # type: ignore[call-overload]
    return message if message is not None else os.strerror(errno)


class ZMQBaseError(Exception):
    """The base of all errors of the package."""


class ZMQError(ZMQBaseError):
    """An error with a number; `errno` and `strerror` as in OSError."""

    errno: int | None = None
    strerror: str

    def __init__(self, errno: int | None = None, msg: str | None = None) -> None:
        # Without the base's constructor `args` are the caller's, as in pyzmq.
        if isinstance(errno, int):
            self.errno = int(errno)
        if msg is None:
            msg = strerror(errno) if isinstance(errno, int) else str(errno)
        self.strerror = msg

    def __str__(self) -> str:
        return self.strerror

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class ZMQBindError(ZMQBaseError):
    """`bind_to_random_port` found no free port."""


class NotDone(ZMQBaseError):
    """`MessageTracker.wait` timed out."""


class ZMQVersionError(NotImplementedError):
    """A feature is missing from this implementation; kept for `except` clauses."""


class ContextTerminated(ZMQError):
    """ETERM: the context is being terminated; a socket may only `close`."""

    def __init__(self, errno: object = None, msg: object = None) -> None:  # noqa: ARG002 - pyzmq's
        super().__init__(Errno.ETERM)


class Again(ZMQError):
    """EAGAIN: the operation would have blocked, or its timeout has passed."""

    def __init__(self, errno: object = None, msg: object = None) -> None:  # noqa: ARG002 - pyzmq's
        super().__init__(Errno.EAGAIN)


class InterruptedSystemCall(ZMQError, InterruptedError):  # type: ignore[misc]
    """EINTR. Never raised here: interrupted waits resume by themselves."""

    def __init__(self, errno: object = None, msg: object = None) -> None:  # noqa: ARG002 - pyzmq's
        super().__init__(EINTR)


class MailboxClosed(ZMQError):
    """ENOTSOCK: a mailbox was used after `close`, or in a forked child."""

    def __init__(self, msg: str) -> None:
        super().__init__(Errno.ENOTSOCK, msg)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.strerror,), self.__dict__


__all__ = [
    "Again",
    "ContextTerminated",
    "InterruptedSystemCall",
    "MailboxClosed",
    "NotDone",
    "ZMQBaseError",
    "ZMQBindError",
    "ZMQError",
    "ZMQVersionError",
    "strerror",
]
