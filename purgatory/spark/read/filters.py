"""Turns Spark's filters into Arrow's, and into a range of times. Pure; any thread may call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import and_, eq, ge, gt, le, lt
from typing import Any, Final, NamedTuple

import pyarrow.dataset as ds
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1


class Range(NamedTuple):
    """The times from `first` to `last`, Unix ms, both included."""

    first: int = _LEAST
    last: int = _MOST

    def overlaps(self, first: int, last: int) -> bool:
        """Say whether a time of another range is in this one."""
        return first <= self.last and self.first <= last

    def narrowed(self, first: int, last: int) -> Range:
        """Return the times that are also in another range."""
        return Range(max(self.first, first), min(self.last, last))


def arrow_condition(filters: Iterable[Filter]) -> ds.Expression | None:
    """Return the condition that all filters make together; None without one that Arrow has.

    Rows that meet all filters meet it. Spark evaluates the filters again, so it may be true of more
    rows.
    """
    conditions = [found for each in filters if (found := _condition(each)) is not None]
    return reduce(and_, conditions) if conditions else None


def _condition(each: Filter) -> ds.Expression | None:
    match each:
        case Not(EqualTo((name,), value)):
            return ds.field(name) != value
        case IsNull((name,)):
            return ds.field(name).is_null()
        case IsNotNull((name,)):
            return ds.field(name).is_valid()
        case In((name,), values) if None not in values:
            return ds.field(name).isin(list(values))
        case (
            EqualTo((name,), value)
            | GreaterThan((name,), value)
            | GreaterThanOrEqual((name,), value)
            | LessThan((name,), value)
            | LessThanOrEqual((name,), value)
        ):
            return _COMPARISONS[type(each)](ds.field(name), value)
    return None


_COMPARISONS: Final[Mapping[type[Filter], Callable[[ds.Expression, Any], ds.Expression]]] = {
    EqualTo: eq,
    GreaterThan: gt,
    GreaterThanOrEqual: ge,
    LessThan: lt,
    LessThanOrEqual: le,
}


def time_range(filters: Iterable[Filter], column: str) -> Range:
    """Return the times that a column of Unix ms can have."""
    times = Range()
    for each in filters:
        match each:
            case EqualTo((name,), int(value)) if name == column:
                times = times.narrowed(value, value)
            case GreaterThan((name,), int(value)) | GreaterThanOrEqual((name,), int(value)) if (
                name == column
            ):
                times = times.narrowed(value, _MOST)
            case LessThan((name,), int(value)) | LessThanOrEqual((name,), int(value)) if (
                name == column
            ):
                times = times.narrowed(_LEAST, value)
    return times
