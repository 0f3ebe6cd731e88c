"""The errors of the service; `ServiceError` is the base of all.

Bad arguments raise ValueError or TypeError. A refusal's code is part of docs/protocol.md.
"""

import threading
from typing import ClassVar, Final

from purgatory.errors import PurgatoryError, StoreError


class ServiceError(PurgatoryError):
    """Base of all errors of the service."""


class KeysError(ServiceError):
    """A key is missing, exists already, is malformed, or can be read by others."""


class ConfigError(ServiceError):
    """A setting has a bad value; names the place, the value, and what is expected."""


class BadAddress(ServiceError, ValueError):
    """No client can connect to an address of this form."""


class ServerError(ServiceError):
    """A server cannot start or go on: an address in use, another server's data directory."""


class Unavailable(ServiceError):
    """The client is closed, or was closed before the answer."""


class OperationFailed(ServiceError):
    """Raised by the future of an operation if a key that it waits for fails.

    `error_type` and `message`: as given to `fail`.
    """

    def __init__(self, error_type: str, message: str = "") -> None:
        super().__init__(error_type, message)
        self.error_type = error_type
        self.message = message

    def __str__(self) -> str:
        return f"{self.error_type}: {self.message}" if self.message else self.error_type


class JobFailed(ServiceError):
    """Raised for the result of a dead job. `error`: of the last of `attempts`."""

    def __init__(self, job_id: str, error: str = "", attempts: int = 0) -> None:
        super().__init__(job_id, error, attempts)
        self.job_id = job_id
        self.error = error
        self.attempts = attempts

    def __str__(self) -> str:
        return f"job {self.job_id!r} is dead after attempt {self.attempts}: {self.error}"


class JobCancelled(ServiceError):
    """Raised for the result of a cancelled job; `reason` names the key, or the server's reason."""

    def __init__(self, job_id: str, reason: str = "") -> None:
        super().__init__(job_id, reason)
        self.job_id = job_id
        self.reason = reason

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason not in ("", "cancelled") else ""
        return f"job {self.job_id!r} was cancelled{why}"


class JobUnknown(ServiceError):
    """Raised for the result of a job that the server never had, or has forgotten."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id

    def __str__(self) -> str:
        return f"the server does not know job {self.job_id!r}, or remembers it no longer"


class RequestTimeout(ServiceError, TimeoutError):
    """No answer came in time; the server may or may not carry the request out."""


class ClientBusy(RequestTimeout):
    """The call was not made: too many calls are unsent, as no server takes them."""


class RequestAbandoned(ServiceError):
    """The connection was lost each time the request was sent; the client sends it no more.

    The server may or may not have carried it out.
    """


class TimeLimit(ServiceError):
    """An attempt at a job took longer than its handler's `timeout`."""


class WorkerStuck(ServiceError):
    """Too many handlers of a worker run beyond their time limits, and cannot be stopped.

    The worker has given back its jobs. Its process has to be restarted.
    """


class LeaseTimeout(ServiceError, TimeoutError):
    """Another program held the named lease for too long."""


#: The message of `Standby` begins so before the active server's address.
STANDBY_OF: Final = "standby of "


class Refused(ServiceError):
    """Base of a server's refusals: nothing of the request was done."""

    code: ClassVar[str] = "refused"

    def __init_subclass__(cls, code: str) -> None:
        cls.code = code


class Malformed(Refused, code="malformed"):
    """The message is not one of the protocol, or has a bad value."""


class WrongVersion(Refused, code="version"):
    """The server does not speak this version, or the request needs a later version."""


class HelloRequired(Refused, code="hello"):
    """The connection has not said hello, or was cut off by the server."""


class TooLarge(Refused, code="too-large"):
    """The message, a payload, a text or a value is too large for the server."""


class TooManyItems(Refused, code="too-many-items"):
    """The request has too many operations, keys, ids or numbers."""


class ServerBusy(Refused, code="busy"):
    """Too many kinds have a limit, jobs are watched or requests are under way. Can be temporary."""


class TooManyReads(Refused, code="too-many-reads"):
    """Too many queries, repeated outcomes or streams of the client wait. Temporary."""


class TooManyKeys(Refused, code="too-many-keys"):
    """The operation watches too many keys."""


class TimeoutTooLong(Refused, code="too-long"):
    """The timeout is too long for the server."""


class TooManyPending(Refused, code="too-many-pending"):
    """The client, or all together, have too many operations. Can be temporary."""


class TooMuchMemory(Refused, code="too-much-memory"):
    """The server would take more memory than it may. Can be temporary."""


class TooManyHeld(Refused, code="too-many-held"):
    """The server holds too many events. Can be temporary."""


class TooManyRemembered(Refused, code="too-many-remembered"):
    """The server remembers too many ids. Can be temporary.

    Submissions without a period are accepted.
    """


class TooManySessions(Refused, code="too-many-sessions"):
    """The server remembers too many sessions of the client. Temporary."""


class TooManyRepeats(Refused, code="too-many-repeats"):
    """The client, or all together, have too many repeats."""


class TooManyLeases(Refused, code="too-many-leases"):
    """The server has too many named leases, or waiters. Can be temporary."""


class TooManyClients(Refused, code="too-many-clients"):
    """The server has too many connections. Can be temporary."""


class OperationIdTaken(Refused, code="taken"):
    """The id belongs to another client, or an operation and a job would share it."""


class NotAllowed(Refused, code="not-allowed"):
    """The client's key lacks the right, or is not for this client name."""


class StoreFailed(Refused, code="store"):
    """The server could not write to its disk. Can be temporary."""


class RequestFailed(Refused, code="internal"):
    """The request revealed a fault of the server, see its log; nothing was done."""


class ServerClosing(Refused, code="closing"):
    """The server is closing."""


class Standby(Refused, code="standby"):
    """The server is a standby: another server has the data, or none has."""

    @property
    def address(self) -> str:
        """Of the active server; empty if unknown."""
        text = str(self)
        return text.removeprefix(STANDBY_OF) if text.startswith(STANDBY_OF) else ""


def described(error: BaseException) -> tuple[str, str]:
    """Return the name of an error's class and its text, as UTF-8 can hold them.

    If `__str__` raises, the text says so.
    """
    try:
        name, text = type(error).__name__, str(error)
        return name, str.encode(text, "utf-8", "backslashreplace").decode()
    except BaseException as trouble:
        ctrl_c = threading.current_thread() is threading.main_thread()
        if ctrl_c and isinstance(trouble, KeyboardInterrupt):
            raise
        what = type.__repr__(type(error)), type.__repr__(type(trouble))
        return "Error", f"the text of {what[0]} cannot be made: {what[1]}"


def summary_of(error: BaseException) -> str:
    """Return the class name and the text, if any, as `described` does."""
    return ": ".join(filter(None, described(error)))


#: After these a client sends the calls again, on the next connection.
TRANSIENT: Final = (HelloRequired, ServerClosing, TooManyClients)
#: A single call of a batch may be the reason.
OF_ONE_CALL: Final = (
    Malformed,
    RequestFailed,
    TimeoutTooLong,
    TooLarge,
    TooManyHeld,
    TooManyItems,
    TooManyKeys,
    TooMuchMemory,
)
_REFUSALS: Final = {kind.code: kind for kind in Refused.__subclasses__()}


def refusal_of(error: Exception) -> Refused:
    """Return the refusal for a failed request. Raises an error of a damaged store."""
    if not isinstance(error, StoreError):
        return RequestFailed(f"the server has a fault, see its log: {type(error).__name__}")
    if error.fatal:
        raise error
    return StoreFailed(str(error))


def error_for(code: str, message: str) -> Refused:
    """Return the error of a code; of an unknown code, a plain `Refused`."""
    return _REFUSALS.get(code, Refused)(message)
