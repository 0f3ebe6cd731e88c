"""Rules: which values a column of a trace may hold, and the texts of errors.

Each rule is for a value, a column, and an Arrow array. What does not pass is checked value by
value. Immutable; any thread.
"""

import enum
from collections.abc import Callable
from functools import partial
from itertools import chain
from operator import add
from typing import Any, Final, NamedTuple

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
#: The farthest time of a row from 1970, 36 million years: a timer counts it with any timeout.
FARTHEST_MS: Final = 2**60
#: What is expected of such a time, for errors.
NEAR_TIME: Final = "a time within 2**60 ms of 1970"
COMPLETED: Final = "completed"
EXPIRED: Final = "expired"
FAILED: Final = "failed"
DONE: Final = "done"
DEAD: Final = "dead"
CANCELLED: Final = "cancelled"
OUTCOMES: Final = (COMPLETED, FAILED, EXPIRED, CANCELLED)

#: The states in which a job ends.
ENDS_OF_JOBS: Final = (DONE, DEAD, CANCELLED)

_LISTS: Final = frozenset((tuple, list))


class ColumnType(enum.Enum):
    """The type of a column; each format has a type of the same meaning."""

    TEXT = "text"
    TEXTS = "list of texts"
    INT32 = "integer"
    INT64 = "integer of 64 bits"
    BOOL = "true or false"


class ValueRule(NamedTuple):
    """Which values a column may hold. Types are exact: True is no integer.

    Each function also takes the column `beside`, checked before. `fault` returns what is expected
    instead of a value; empty if good. `all_good`: whether all values of a column are good, at least
    one. `all_surely_good`: whether an Arrow array without nulls is good beyond doubt. `plain`: a
    cheap expression that is true of most good values and of no bad one.
    """

    type: ColumnType
    fault: Callable[[Any, Any], str]
    all_good: Callable[[list[Any], Any], bool]
    all_surely_good: Callable[[Any, Any, Any], bool]
    plain: str


# Texts


def _text_fault(value: Any, _beside: Any) -> str:
    is_text = type(value) is str and (value.isascii() or _is_encodable(value))
    return "" if is_text else "UTF-8 text"


def _are_texts(values: list[Any], _beside: Any = None) -> bool:
    if not set(map(type, values)) <= {str}:
        return False
    joined = "".join(values)
    return joined.isascii() or _is_encodable(joined)


def _is_encodable(text: str) -> bool:
    """Tell whether UTF-8 can hold a text, which may have lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_text_array(pa: Any, array: Any, _beside: Any) -> bool:
    return bool(pa.types.is_string(array.type) or pa.types.is_large_string(array.type))


def _name_fault(value: Any, _beside: Any) -> str:
    if type(value) is str and value and (value.isascii() or _is_encodable(value)):
        return ""
    return "non-empty UTF-8 text"


def _are_names(values: list[Any], _beside: Any = None) -> bool:
    return _are_texts(values) and all(values)


def _are_names_in_array(pa: Any, array: Any, _beside: Any) -> bool:
    return _is_text_array(pa, array, None) and _least(pa, pa.compute.binary_length(array)) > 0


def _one_of(names: tuple[str, ...], expected: str) -> ValueRule:
    def fault(value: Any, _beside: Any) -> str:
        return "" if value in names else expected

    def are_names(values: list[Any], _beside: Any) -> bool:
        return _are_texts(values) and set(values) <= set(names)

    return ValueRule(ColumnType.TEXT, fault, are_names, _unsure, f"{{value}} in {names}")


def _texts_fault(value: Any, _beside: Any) -> str:
    good = type(value) in _LISTS and _are_texts(list(value))
    return "" if good else "a list of texts"


def _are_text_lists(values: list[Any], beside: Any) -> bool:
    return not any(_texts_fault(value, beside) for value in values)


def _completing_key_fault(value: Any, outcome: Any) -> str:
    is_completed = outcome == COMPLETED
    return _name_fault(value, None) if is_completed else f"no key, as the operation is {outcome}"


def _are_completing_keys(values: list[Any], outcomes: Any) -> bool:
    given = [key for key in values if key is not None]
    ends = {end for key, end in zip(values, outcomes, strict=True) if key is not None}
    return not given or (ends == {COMPLETED} and _are_names(given))


def _unsure(_pa: Any, _array: Any, _beside: Any) -> bool:
    return False


# Integers and truth


def _int64_fault(value: Any, _beside: Any) -> str:
    is_good = type(value) is int and INT64_MIN <= value <= INT64_MAX
    return "" if is_good else "an integer of 64 bits"


def _are_int64(values: list[Any], _beside: Any) -> bool:
    is_int = set(map(type, values)) == {int}
    return is_int and min(values) >= INT64_MIN and max(values) <= INT64_MAX


def _time_fault(value: Any, beside: Any) -> str:
    is_near = type(value) is int and -FARTHEST_MS <= value <= FARTHEST_MS
    return "" if is_near else _int64_fault(value, beside) or NEAR_TIME


def _are_times(values: list[Any], _beside: Any) -> bool:
    is_good = _are_int64(values, None)
    return is_good and min(values) >= -FARTHEST_MS and max(values) <= FARTHEST_MS


def _are_times_in_array(pa: Any, array: Any, _beside: Any) -> bool:
    first, last = _bounds(pa, array)
    return first >= -FARTHEST_MS and last <= FARTHEST_MS


def _span_fault(value: Any, start_ms: Any, end: str) -> str:
    if type(value) is not int or not 0 <= value <= INT64_MAX:
        return "an integer of 64 bits, 0 or more"
    return "" if start_ms + value <= INT64_MAX else f"{end} within 64 bits"


def _are_spans(values: list[Any], start_ms: Any) -> bool:
    is_good = _are_int64(values, None) and min(values) >= 0
    return is_good and max(map(add, start_ms, values)) <= INT64_MAX


def _are_spans_in_array(pa: Any, array: Any, start_ms: Any) -> bool:
    shortest, longest = _bounds(pa, array)
    return shortest >= 0 and _bounds(pa, start_ms)[1] + longest <= INT64_MAX


def _need_fault(value: Any, keys: Any) -> str:
    if type(value) is int and (value == 1 or 1 <= value <= len(set(keys))):
        return ""
    return f"an integer from 1 to {len(set(keys))}, the number of distinct keys"


def _are_needs(values: list[Any], keys: Any) -> bool:
    if set(map(type, values)) != {int}:
        return False
    return values.count(1) == len(values) or not any(map(_need_fault, values, keys))


def _bounds(pa: Any, array: Any) -> tuple[int, int]:
    found = pa.compute.min_max(array).as_py()
    return found["min"], found["max"]


def _least(pa: Any, array: Any) -> int:
    return int(pa.compute.min(array).as_py())


# Lists


def _keys_fault(value: Any, _beside: Any) -> str:
    if type(value) not in _LISTS or not value:
        return "a list of at least one key"
    wrong = next(filter(None, (_name_fault(key, None) for key in value)), "")
    return wrong and f"every key to be {wrong}"


def _are_key_lists(values: list[Any], _beside: Any) -> bool:
    are_lists = set(map(type, values)) <= _LISTS and all(values)
    return are_lists and _are_names(list(chain.from_iterable(values)))


def _are_key_lists_in_array(pa: Any, array: Any, _beside: Any) -> bool:
    if _least(pa, pa.compute.list_value_length(array)) < 1:
        return False
    keys = array.flatten()
    return keys.null_count == 0 and _are_names_in_array(pa, keys, None)


_PLAIN_TEXT: Final = "type({value}) is str and {value}.isascii()"
_PLAIN_NAME: Final = _PLAIN_TEXT + " and {value}"
_PLAIN_KEYS: Final = "type({value}) in (tuple, list) and len({value}) == 1 and " + (
    _PLAIN_NAME.replace("{value}", "{value}[0]")
)
_PLAIN_INTEGER: Final = f"type({{value}}) is int and {INT64_MIN} <= {{value}} <= {INT64_MAX}"
_PLAIN_TIME: Final = f"type({{value}}) is int and {-FARTHEST_MS} <= {{value}} <= {FARTHEST_MS}"
_PLAIN_SPAN: Final = f"type({{value}}) is int and 0 <= {{value}} <= {INT64_MAX} - {{beside}}"

_TYPE: Final = ColumnType
TEXT: Final = ValueRule(_TYPE.TEXT, _text_fault, _are_texts, _is_text_array, _PLAIN_TEXT)
NAME: Final = ValueRule(_TYPE.TEXT, _name_fault, _are_names, _are_names_in_array, _PLAIN_NAME)
OUTCOME: Final = _one_of(OUTCOMES, "completed, failed, expired or cancelled")
#: The key that completed an operation, in a row with its outcome.
COMPLETING_KEY: Final = ValueRule(
    _TYPE.TEXT, _completing_key_fault, _are_completing_keys, _unsure, "{value} is None"
)
INTEGER: Final = ValueRule(
    _TYPE.INT64,
    _int64_fault,
    _are_int64,
    lambda pa, array, _: _bounds(pa, array)[1] <= INT64_MAX,
    _PLAIN_INTEGER,
)
#: The Unix milliseconds of a row of a trace. A replay's timer counts no later ones.
TIME: Final = ValueRule(_TYPE.INT64, _time_fault, _are_times, _are_times_in_array, _PLAIN_TIME)
#: A duration from the time beside it.
SPAN: Final = ValueRule(
    _TYPE.INT64,
    partial(_span_fault, end="a deadline"),
    _are_spans,
    _are_spans_in_array,
    _PLAIN_SPAN,
)
HOLD: Final = SPAN._replace(fault=partial(_span_fault, end="an end of the hold"))
KEYS: Final = ValueRule(
    _TYPE.TEXTS, _keys_fault, _are_key_lists, _are_key_lists_in_array, _PLAIN_KEYS
)
#: Any texts.
TEXTS: Final = ValueRule(
    _TYPE.TEXTS, _texts_fault, _are_text_lists, _unsure, "type({value}) is tuple and not {value}"
)
JOB_END: Final = _one_of(ENDS_OF_JOBS, f"one of {', '.join(ENDS_OF_JOBS)}")
#: How many of the keys beside it are needed.
NEED: Final = ValueRule(
    _TYPE.INT32,
    _need_fault,
    _are_needs,
    lambda pa, array, _: _bounds(pa, array) == (1, 1),
    "type({value}) is int and {value} == 1",
)
TRUTH: Final = ValueRule(
    _TYPE.BOOL,
    lambda value, _: "" if value is True or value is False else "true or false",
    lambda values, _: set(map(type, values)) == {bool},
    lambda pa, array, _: bool(pa.types.is_boolean(array.type)),
    "{value} is False",
)
