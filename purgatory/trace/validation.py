"""Validation: which values a row of a trace may hold.

All readers and writers make their rows here, from values of any type. Any thread may call these
functions. They raise `BadValue`, naming the first bad value; the reader makes a `BadRow` of it.
"""

from __future__ import annotations

from typing import Any, Final

from purgatory.trace.errors import BadValue
from purgatory.trace.rows import (
    COMPLETED,
    INT64_MAX,
    INT64_MIN,
    OUTCOMES,
    Extension,
    KeyEvent,
    Operation,
    OutcomeRow,
)

_LISTS: Final = (tuple, list)
_TEXT: Final = "UTF-8 text"
_NON_EMPTY_TEXT: Final = "non-empty UTF-8 text"
_INT64: Final = "an integer of 64 bits"
_DURATION: Final = "an integer of 64 bits, 0 or more"
_DEADLINE: Final = "a deadline within 64 bits"


def checked_operation(
    op_id: Any,
    kind: Any,
    submitted_ms: Any,
    timeout_ms: Any,
    keys: Any,
    need: Any = None,
) -> Operation:
    """Make an Operation of values that may be anything; `BadValue` names the first bad one.

    `kind` may be None (then empty), `need` too (then 1).
    """
    # Inlined: this runs for every row of a trace, and calls would double its time.
    if type(op_id) is not str or not op_id or not (op_id.isascii() or _is_encodable(op_id)):
        raise BadValue("op_id", op_id, _NON_EMPTY_TEXT)
    if type(kind) is not str or not (kind.isascii() or _is_encodable(kind)):
        kind = _kind(kind)
    if type(submitted_ms) is not int or not INT64_MIN <= submitted_ms <= INT64_MAX:
        raise BadValue("submitted_ms", submitted_ms, _INT64)
    if type(timeout_ms) is not int or not 0 <= timeout_ms <= INT64_MAX:
        raise BadValue("timeout_ms", timeout_ms, _DURATION)
    if submitted_ms + timeout_ms > INT64_MAX:
        raise BadValue("timeout_ms", timeout_ms, _DEADLINE)
    keys = _keys(keys)
    # Almost every operation needs one key, and there always is one.
    if type(need) is not int or need != 1:
        need = _need(need, keys)
    return Operation(op_id, kind, submitted_ms, timeout_ms, keys, need)


def checked_event(key: Any, at_ms: Any, hold_ms: Any = None, failed: Any = None) -> KeyEvent:
    """Make a KeyEvent of values that may be anything; `BadValue` names the first bad one.

    `hold_ms` may be None (then 0), `failed` too (then False).
    """
    if type(key) is not str or not key or not (key.isascii() or _is_encodable(key)):
        raise BadValue("key", key, _NON_EMPTY_TEXT)
    if type(at_ms) is not int or not INT64_MIN <= at_ms <= INT64_MAX:
        raise BadValue("at_ms", at_ms, _INT64)
    # Almost every event is neither held nor failed.
    if type(hold_ms) is not int or hold_ms != 0:
        hold_ms = _hold_ms(hold_ms, at_ms)
    if failed is not False:
        failed = _failed(failed)
    return KeyEvent(key, at_ms, hold_ms, failed)


def checked_extension(op_id: Any, at_ms: Any, timeout_ms: Any) -> Extension:
    """Make an Extension of values that may be anything; `BadValue` names the first bad one."""
    if not op_id or not _is_text(op_id):
        raise BadValue("op_id", op_id, _NON_EMPTY_TEXT)
    if not _is_int64(at_ms):
        raise BadValue("at_ms", at_ms, _INT64)
    if not _is_int64(timeout_ms) or timeout_ms < 0:
        raise BadValue("timeout_ms", timeout_ms, _DURATION)
    if at_ms + timeout_ms > INT64_MAX:
        raise BadValue("timeout_ms", timeout_ms, _DEADLINE)
    return Extension(op_id, at_ms, timeout_ms)


def checked_outcome(
    op_id: Any,
    kind: Any,
    outcome: Any,
    at_ms: Any,
    by_key: Any,
    submitted_ms: Any,
    deadline_ms: Any,
    waited_ms: Any,
    lateness_ms: Any,
) -> OutcomeRow:
    """Make an OutcomeRow of values that may be anything; `BadValue` names the first bad one."""
    if not op_id or not _is_text(op_id):
        raise BadValue("op_id", op_id, _NON_EMPTY_TEXT)
    kind = _kind(kind)
    if outcome not in OUTCOMES:
        raise BadValue("outcome", outcome, "completed, failed, expired or cancelled")
    if by_key is not None:
        _check_by_key(by_key, outcome)
    times = (at_ms, submitted_ms, deadline_ms, waited_ms, lateness_ms)
    if not all(map(_is_int64, times)):
        names = ("at_ms", "submitted_ms", "deadline_ms", "waited_ms", "lateness_ms")
        raise next(
            BadValue(name, time, _INT64)
            for name, time in zip(names, times, strict=True)
            if not _is_int64(time)
        )
    return OutcomeRow(
        op_id, kind, outcome, at_ms, by_key, submitted_ms, deadline_ms, waited_ms, lateness_ms
    )


def _is_text(value: Any) -> bool:
    return type(value) is str and (value.isascii() or _is_encodable(value))


def _is_encodable(text: str) -> bool:
    """Tell whether UTF-8 can hold a text: readers pass on bad bytes as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_int64(value: Any) -> bool:
    # The exact type, as True is an int, too.
    return type(value) is int and INT64_MIN <= value <= INT64_MAX


def _kind(kind: Any) -> str:
    if kind is None:
        return ""
    if not _is_text(kind):
        raise BadValue("kind", kind, _TEXT)
    return str(kind)


def _keys(keys: Any) -> tuple[str, ...]:
    if type(keys) not in _LISTS or not keys:
        raise BadValue("keys", keys, "a list of at least one key")
    for key in keys:
        if type(key) is not str or not key or not (key.isascii() or _is_encodable(key)):
            raise BadValue("keys", keys, "every key to be " + _NON_EMPTY_TEXT)
    return tuple(keys)


def _need(need: Any, keys: tuple[str, ...]) -> int:
    if need is None:
        return 1
    distinct = len(set(keys))
    if type(need) is not int or not 1 <= need <= distinct:
        raise BadValue(
            "need", need, f"an integer from 1 to {distinct}, the number of distinct keys"
        )
    return need


def _hold_ms(hold_ms: Any, at_ms: int) -> int:
    if hold_ms is None:
        return 0
    if not _is_int64(hold_ms) or hold_ms < 0:
        raise BadValue("hold_ms", hold_ms, _DURATION)
    if at_ms + hold_ms > INT64_MAX:
        raise BadValue("hold_ms", hold_ms, "an end of the hold within 64 bits")
    return int(hold_ms)


def _failed(failed: Any) -> bool:
    if failed is None:
        return False
    if failed is not True and failed is not False:
        raise BadValue("failed", failed, "true or false")
    return failed


def _check_by_key(by_key: Any, outcome: str) -> None:
    if outcome != COMPLETED:
        raise BadValue("by_key", by_key, f"no key, as the operation is {outcome}")
    if not by_key or not _is_text(by_key):
        raise BadValue("by_key", by_key, _NON_EMPTY_TEXT)
