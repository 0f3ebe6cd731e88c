"""Validation by column: whether all rows of a batch may stand in a table.

Each function takes the lists of a table's columns, at least one row, values of any type. It returns
them with the defaults filled in, or None if a row may be bad. `validation` then goes through that
batch row by row, and names the bad value: it has the rules, and here they are for whole columns. A
loop in C for each column and rule takes a tenth of the time. Any thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from operator import add
from typing import TYPE_CHECKING, Any, Final

from purgatory.trace.rows import COMPLETED, INT64_MAX, INT64_MIN, OUTCOMES

if TYPE_CHECKING:
    from purgatory.trace.rows import Columns

_SEQUENCES: Final = frozenset((tuple, list))


def operation_columns(
    op_id: list[Any],
    kind: list[Any],
    submitted_ms: list[Any],
    timeout_ms: list[Any],
    keys: list[Any],
    need: list[Any],
) -> Columns | None:
    """Check the columns of operations; as `checked_operation`."""
    kind = _filled(kind, "")
    need = _filled(need, 1)
    good = (
        _are_names(op_id)
        and _are_texts(kind)
        and _are_spans(submitted_ms, timeout_ms)
        and _are_key_lists(keys)
        and _are_needs(need, keys)
    )
    return (op_id, kind, submitted_ms, timeout_ms, list(map(tuple, keys)), need) if good else None


def event_columns(
    key: list[Any], at_ms: list[Any], hold_ms: list[Any], failed: list[Any]
) -> Columns | None:
    """Check the columns of key events; as `checked_event`."""
    hold_ms = _filled(hold_ms, 0)
    failed = _filled(failed, False)
    good = _are_names(key) and _are_spans(at_ms, hold_ms) and set(map(type, failed)) == {bool}
    return (key, at_ms, hold_ms, failed) if good else None


def extension_columns(op_id: list[Any], at_ms: list[Any], timeout_ms: list[Any]) -> Columns | None:
    """Check the columns of extensions; as `checked_extension`."""
    good = _are_names(op_id) and _are_spans(at_ms, timeout_ms)
    return (op_id, at_ms, timeout_ms) if good else None


def outcome_columns(
    op_id: list[Any],
    kind: list[Any],
    outcome: list[Any],
    at_ms: list[Any],
    by_key: list[Any],
    *times: list[Any],
) -> Columns | None:
    """Check the columns of outcomes; as `checked_outcome`."""
    kind = _filled(kind, "")
    good = (
        _are_names(op_id)
        and _are_texts(kind)
        and _are_texts(outcome)
        and set(outcome) <= set(OUTCOMES)
        and all(map(_are_int64, (at_ms, *times)))
        and _are_completing_keys(by_key, outcome)
    )
    return (op_id, kind, outcome, at_ms, by_key, *times) if good else None


def _filled(column: list[Any], default: object) -> list[Any]:
    """Return a column with a default in the place of None."""
    return [default if value is None else value for value in column] if None in column else column


def _are_texts(column: Iterable[Any]) -> bool:
    values = column if isinstance(column, list) else list(column)
    if not set(map(type, values)) <= {str}:  # the exact type, as in `validation`
        return False
    joined = "".join(values)
    return joined.isascii() or _is_encodable(joined)


def _is_encodable(text: str) -> bool:
    # Two lone surrogates beside each other are no pair: Python has no pairs.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _are_names(column: list[Any]) -> bool:
    return _are_texts(column) and all(column)


def _are_int64(column: list[Any]) -> bool:
    # The exact type, as True is an int, too.
    is_int = set(map(type, column)) == {int}
    return is_int and min(column) >= INT64_MIN and max(column) <= INT64_MAX


def _are_spans(start_ms: list[Any], length_ms: list[Any]) -> bool:
    """Tell whether these are times and durations that end within 64 bits."""
    return (
        _are_int64(start_ms)
        and _are_int64(length_ms)
        and min(length_ms) >= 0
        and max(map(add, start_ms, length_ms)) <= INT64_MAX
    )


def _are_key_lists(column: list[Any]) -> bool:
    return (
        set(map(type, column)) <= _SEQUENCES
        and all(column)
        and _are_names(list(chain.from_iterable(column)))
    )


def _are_needs(column: list[Any], keys: list[Any]) -> bool:
    if column.count(1) == len(column) and set(map(type, column)) == {int}:  # nearly always
        return True
    return set(map(type, column)) == {int} and all(
        1 <= need <= len(set(these)) for need, these in zip(column, keys, strict=True)
    )


def _are_completing_keys(column: list[Any], outcome: list[str]) -> bool:
    given = [key for key in column if key is not None]
    if not given:
        return True
    of_others = any(
        key is not None and ended != COMPLETED for key, ended in zip(column, outcome, strict=True)
    )
    return not of_others and _are_names(given)
