"""What can go wrong with the service; one base for all of it, save bad arguments.

A server answers a refused request with a code and words; `error_for` makes of them the error
that the client raises. The codes are part of the protocol (docs/protocol.md).
"""

from typing import ClassVar, Final

from purgatory.errors import PurgatoryError


class ServiceError(PurgatoryError):
    """Base of all errors of the service."""


class ConfigError(ServiceError):
    """Raised for a setting that cannot be; names where it was set, its value and what it may be."""


class ServerError(ServiceError):
    """Raised when a server cannot start or go on: an address in use, another server's data."""


class Unavailable(ServiceError):
    """Raised by a client that is closed, or closes before its request was answered."""


class RequestTimeout(ServiceError, TimeoutError):
    """Raised when no answer came in time. The request may have been done, or be done yet."""


class Refused(ServiceError):
    """Base of what a server answers when it does not do as asked; nothing was changed."""

    code: ClassVar[str] = "refused"


class Malformed(Refused):
    """The message was not one of the protocol, or a value in it is none that it may be."""

    code = "malformed"


class WrongVersion(Refused):
    """The server does not speak this version of the protocol."""

    code = "version"


class HelloRequired(Refused):
    """The connection has not said who it is, or the server has forgotten it."""

    code = "hello"


class TooLarge(Refused):
    """The message, an operation's payload, a text or a value is larger than the server takes."""

    code = "too-large"


class TooManyKeys(Refused):
    """The operation watches more keys than the server takes."""

    code = "too-many-keys"


class TimeoutTooLong(Refused):
    """The timeout is longer than the server takes."""

    code = "too-long"


class TooManyPending(Refused):
    """The client, or all of them, have as many operations as the server takes. It may pass."""

    code = "too-many-pending"


class TooManyClients(Refused):
    """As many connections as the server takes are there already. It may pass."""

    code = "too-many-clients"


class OperationIdTaken(Refused):
    """The operation id belongs to another client."""

    code = "taken"


class StoreFailed(Refused):
    """The server could not write to its disk; nothing was done. It may pass."""

    code = "store"


class ServerClosing(Refused):
    """The server is about to end."""

    code = "closing"


_REFUSALS: Final = {kind.code: kind for kind in Refused.__subclasses__()}


def error_for(code: str, message: str) -> Refused:
    """The error for what a server answered; a code of a later version makes a plain `Refused`."""
    return _REFUSALS.get(code, Refused)(message)


# Names of earlier versions.
Closing = ServerClosing
NoHello = HelloRequired
Taken = OperationIdTaken
TooLong = TimeoutTooLong
