"""Checks of the arguments of a client's calls. Any thread.

They raise TypeError for a wrong type, and ValueError for a bad value.
"""

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, TypeAlias, TypeGuard

from purgatory.durations import parse_duration
from purgatory.service.errors import OperationFailed, described
from purgatory.service.protocol import DEFAULT, MADE_UP, MAX_INT
from timingwheel.lowlevel import check_count, to_ms

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_LONGEST_MS: Final = to_ms(timedelta.max)  # 146 years


class _OperationFuture(Protocol):
    @property
    def op_id(self) -> str: ...


class _JobHandle(Protocol):
    @property
    def id(self) -> str: ...


#: The id, the handle or the status of a job.
JobName: TypeAlias = str | _JobHandle
#: An operation's id or future, or a JobName.
OperationName: TypeAlias = JobName | _OperationFuture
#: Seconds, a timedelta, or a text as "30m".
Duration: TypeAlias = float | timedelta | str


def filter_text(text: str | None, what: str) -> str | None:
    """Return a text, or None: no filter."""
    return None if text is None else checked_text(text, what)


def checked_text(text: str, what: str) -> str:
    """Return a text as a plain `str`; lone surrogates are bad."""
    if type(text) is str and text.isascii():
        return text
    if not isinstance(text, str):
        raise TypeError(f"{what} is {text!r}; expected a str")
    try:
        return str.encode(text).decode()  # not an instance of a subclass
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} is {text!r}; expected a text that UTF-8 can hold") from error


def checked_filled(text: str, what: str) -> str:
    """Like `checked_text`; an empty text is bad."""
    text = checked_text(text, what)
    if not text:
        raise ValueError(f"{what} is empty; expected a text")
    return text


def checked_choice(text: str, what: str, choices: tuple[str, ...]) -> str:
    """Return one of the choices."""
    if checked_text(text, what) not in choices:
        raise ValueError(f"{what} is {text!r}; expected one of {', '.join(choices)}")
    return text


def check_methods(value: object, what: str, names: tuple[str, ...]) -> None:
    """Check that an object, or None, has methods."""
    missing = [name for name in names if not callable(getattr(value, name, None))]
    if value is not None and (missing or isinstance(value, type)):
        raise TypeError(f"{what} is {value!r}; expected an object with {', '.join(names)}")


def checked_number(number: object, what: str, least: int = 0) -> int:
    """Return a number of up to 64 bits as a plain int."""
    return check_count(what, number, least, MAX_INT)


def checked_cursor(cursor: object) -> tuple[Any, Any]:
    """Return the two parts of a page's end."""
    if not isinstance(cursor, tuple | list) or len(cursor) != 2:
        raise TypeError(f"cursor is {cursor!r}; expected the `after` of a page")
    return cursor[0], cursor[1]


def error_texts(error: object) -> tuple[str, str]:
    """Return an error's class name and text."""
    if isinstance(error, OperationFailed):  # as it came from a server
        return checked_text(error.error_type, "error_type"), checked_text(error.message, "message")
    if isinstance(error, type) and issubclass(error, Exception):
        return error.__name__, ""
    if not isinstance(error, Exception):
        raise TypeError(f"error is {error!r}; expected an Exception or a class of them")
    return described(error)


def op_id_of(operation: OperationName) -> str:
    """Return the id of an operation."""
    op_id = getattr(operation, "op_id", None) or getattr(operation, "id", operation)
    if not isinstance(op_id, str):
        raise TypeError(f"operation is {operation!r}; expected its id or its future")
    return checked_text(op_id, "operation")


def is_job(operation: OperationName) -> TypeGuard[_JobHandle]:
    """Tell whether it is a job's handle or status."""
    is_operation = isinstance(operation, str) or bool(getattr(operation, "op_id", None))
    return not is_operation and isinstance(getattr(operation, "id", None), str)


def checked_texts(texts: Iterable[str], what: str) -> tuple[str, ...]:
    """Return texts; a single text is no collection."""
    if type(texts) is tuple and not texts:  # nearly always
        return ()
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise TypeError(f"{what} is {texts!r}; expected a collection of texts, such as a list")
    return tuple([checked_text(text, what) for text in texts])


def not_one_of_two(first: str, second: str, *, is_both: bool) -> TypeError:
    """Return the error for both arguments, or neither."""
    found = f"{first} and {second} are both" if is_both else f"neither {first} nor {second} is"
    return TypeError(f"{found} given; expected one of the two")


def duration_ms(duration: Duration, what: str) -> int:
    """Return a duration in milliseconds, rounded up."""
    if isinstance(duration, str):
        duration = named_duration(duration, what)
    try:
        ms = to_ms(duration, what)
    except TypeError as error:
        raise TypeError(f"{error}, or a text as '30m'") from None
    if ms < _LONGEST_MS:
        return ms
    # `to_ms` returns no more; a server's refusal shows the whole duration.
    if isinstance(duration, timedelta):
        return -(duration // -_MILLISECOND)
    return math.ceil(duration * 1000)


def unique_ms_of(unique_for: Duration | None, given_id: str | None) -> int:
    """Return for how long to remember an id."""
    if unique_for is not None:
        return duration_ms(unique_for, "unique_for")
    return MADE_UP if given_id is None else DEFAULT


def named_duration(text: str, what: str) -> float:
    """Return a duration in seconds."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def checked_seconds(duration: Duration, what: str) -> float:
    """Return a duration in seconds, rounded up to milliseconds; at most 146 years."""
    return min(duration_ms(duration, what), _LONGEST_MS) / 1000


def moment_ms(moment: object, what: str) -> int:
    """Return an aware datetime as Unix milliseconds, rounded up; 0 before 1970."""
    if not isinstance(moment, datetime):
        raise TypeError(f"{what} is {moment!r}; expected a datetime with a time zone")
    if moment.utcoffset() is None:
        raise ValueError(f"{what} is {moment!r}, without a time zone; expected an aware datetime")
    return max(0, -((_EPOCH - moment) // _MILLISECOND))
