"""The errors of the service; `ServiceError` is the base of all. Bad arguments are ValueErrors.

A server answers a refused request with a code and a message, from which `error_for` makes the
error that the client raises. The codes are part of the protocol (docs/protocol.md).
"""

from typing import ClassVar, Final

from purgatory.errors import PurgatoryError


class ServiceError(PurgatoryError):
    """Base of all errors of the service."""


class KeysError(ServiceError):
    """A key is missing, exists already, or is malformed; or others may read a secret key."""


class ConfigError(ServiceError):
    """A setting has a bad value; names where it was set, the value, and what is expected."""


class ServerError(ServiceError):
    """A server cannot start or go on: an address in use, another server's data directory."""


class Unavailable(ServiceError):
    """The client is closed, or was closed before the request was answered."""


class OperationFailed(ServiceError):
    """Raised by the future of an operation if a key that it waits for fails.

    `error_type` is the name of the error's class and `message` its text, as given to `fail`.
    """

    def __init__(self, error_type: str, message: str = "") -> None:
        super().__init__(error_type, message)
        self.error_type = error_type
        self.message = message

    def __str__(self) -> str:
        return f"{self.error_type}: {self.message}" if self.message else self.error_type


class RequestTimeout(ServiceError, TimeoutError):
    """No answer came in time; the server may or may not carry the request out."""


class Refused(ServiceError):
    """Base of a server's refusals: nothing of the request was done."""

    code: ClassVar[str] = "refused"


class Malformed(Refused):
    """The message is not one of the protocol, or has a bad value."""

    code = "malformed"


class WrongVersion(Refused):
    """The server does not speak this version of the protocol, or what was asked for needs a later.

    A server of protocol 1 knows neither `extend` and `fail` nor `limit` and `hold`.
    """

    code = "version"


class HelloRequired(Refused):
    """The connection has not said hello, or was cut off by the server."""

    code = "hello"


class TooLarge(Refused):
    """The message, a payload, a text or a value is larger than the server accepts."""

    code = "too-large"


class TooManyItems(Refused):
    """The request names more operations, keys, ids or numbers than the server accepts in one."""

    code = "too-many-items"


class TooManyReads(Refused):
    """Too many queries of the client wait for their answers. Temporary."""

    code = "too-many-reads"


class TooManyKeys(Refused):
    """The operation watches more keys than the server accepts."""

    code = "too-many-keys"


class TimeoutTooLong(Refused):
    """The timeout is longer than the server accepts."""

    code = "too-long"


class TooManyPending(Refused):
    """The client, or all of them together, have too many operations. Can be temporary."""

    code = "too-many-pending"


class TooMuchMemory(Refused):
    """The server would take more memory than it may. Can be temporary."""

    code = "too-much-memory"


class TooManyHeld(Refused):
    """The server holds as many events as it accepts. Can be temporary."""

    code = "too-many-held"


class TooManyClients(Refused):
    """The server has as many connections as it accepts. Can be temporary."""

    code = "too-many-clients"


class OperationIdTaken(Refused):
    """The operation id belongs to another client."""

    code = "taken"


class NotAllowed(Refused):
    """The client's key has not the right for that, or is not for this client name."""

    code = "not-allowed"


class StoreFailed(Refused):
    """The server could not write to its disk. Can be temporary."""

    code = "store"


class ServerClosing(Refused):
    """The server is closing."""

    code = "closing"


_REFUSALS: Final = {kind.code: kind for kind in Refused.__subclasses__()}


def error_for(code: str, message: str) -> Refused:
    """Return the error of a code; a code of a later version gives a plain `Refused`."""
    return _REFUSALS.get(code, Refused)(message)
