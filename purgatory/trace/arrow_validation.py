"""Validation of Arrow arrays: whether all rows of a batch are good beyond doubt.

A few looks at whole arrays, where `column_validation` looks at each value: for tables of operations
and of events, as most are. True only if each value is there, has its type and breaks no rule; texts
are not decoded here. False says nothing: then `column_validation` decides. Any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from purgatory.trace.rows import INT64_MAX

# pyarrow, and the arrays of a table by column; without those that the file lacks.
_Check = Callable[[Any, Mapping[str, Any]], bool]


def are_good(pa: Any, table: str, arrays: Mapping[str, Any]) -> bool:
    """Tell whether all rows are good beyond doubt; there is at least one.

    `pa`: pyarrow, an optional extra. `table`: its name.
    """
    check = _CHECKS.get(table)
    return (
        check is not None and not any(a.null_count for a in arrays.values()) and check(pa, arrays)
    )


def _are_operations(pa: Any, arrays: Mapping[str, Any]) -> bool:
    need = arrays.get("need")
    return (
        _are_names(pa, arrays["op_id"])
        and ("kind" not in arrays or _is_text(pa, arrays["kind"]))
        and _are_spans(pa, arrays["submitted_ms"], arrays["timeout_ms"])
        and _are_key_lists(pa, arrays["keys"])
        and (need is None or _bounds(pa, need) == (1, 1))
    )


def _are_events(pa: Any, arrays: Mapping[str, Any]) -> bool:
    failed = arrays.get("failed")
    return (
        _are_names(pa, arrays["key"])
        and _are_spans(pa, arrays["at_ms"], arrays.get("hold_ms"))
        and (failed is None or pa.types.is_boolean(failed.type))
    )


_CHECKS: Final[dict[str, _Check]] = {"operations": _are_operations, "events": _are_events}


def _is_text(pa: Any, array: Any) -> bool:
    return bool(pa.types.is_string(array.type) or pa.types.is_large_string(array.type))


def _are_names(pa: Any, array: Any) -> bool:
    return _is_text(pa, array) and _least(pa, pa.compute.binary_length(array)) > 0


def _are_key_lists(pa: Any, array: Any) -> bool:
    if _least(pa, pa.compute.list_value_length(array)) < 1:
        return False
    keys = array.flatten()
    return keys.null_count == 0 and _are_names(pa, keys)


def _are_spans(pa: Any, start_ms: Any, length_ms: Any | None) -> bool:
    latest = _bounds(pa, start_ms)[1]
    if length_ms is None:
        return latest <= INT64_MAX
    shortest, longest = _bounds(pa, length_ms)
    return shortest >= 0 and latest + longest <= INT64_MAX


def _bounds(pa: Any, array: Any) -> tuple[int, int]:
    found = pa.compute.min_max(array).as_py()
    return found["min"], found["max"]


def _least(pa: Any, array: Any) -> int:
    return int(pa.compute.min(array).as_py())
