"""Checks of what programs give a client. Pure; any thread."""

from purgatory.service.client.futures import ServiceFuture
from purgatory.service.errors import OperationFailed


def check_name(name: object) -> None:
    """Raise TypeError or ValueError unless it can be the name of a client, or None."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name is {name!r}; expected a str or None")
    if name == "":
        raise ValueError("name is empty; expected a text or None")


def checked_text(text: str, what: str) -> str:
    """Return a text as a plain `str` that UTF-8 can hold.

    Raises TypeError for anything but a text, and UnicodeEncodeError for lone surrogates.
    """
    if type(text) is str and text.isascii():
        return text
    if not isinstance(text, str):
        raise TypeError(f"{what} is {text!r}; expected a str")
    text.encode()
    return str.__str__(text)  # not an instance of a subclass


def checked_limit(limit: object) -> int:
    """Return a limit. Raises TypeError, and ValueError for less than 1."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"limit is {limit!r}; expected an int or None")
    if limit < 1:
        raise ValueError(f"limit is {limit!r}; expected at least 1")
    return limit


def error_texts(error: object) -> tuple[str, str]:
    """Return the name of an error's class, and its text. Raises TypeError."""
    if isinstance(error, OperationFailed):  # as it came from a server
        return error.error_type, error.message
    if isinstance(error, type) and issubclass(error, Exception):
        return error.__name__, ""
    if not isinstance(error, Exception):
        raise TypeError(f"error is {error!r}; expected an Exception or a class of them")
    return type(error).__name__, str(error).encode("utf-8", "replace").decode()


def op_id_of(operation: str | ServiceFuture) -> str:
    """Return the id of an operation. Raises TypeError."""
    op_id = operation.op_id if isinstance(operation, ServiceFuture) else operation
    if not isinstance(op_id, str):
        raise TypeError(f"operation is {operation!r}; expected its id or its future")
    return checked_text(op_id, "operation")
