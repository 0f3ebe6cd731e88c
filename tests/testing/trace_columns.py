"""Columns of a trace, good ones and bad ones; the rows that they make."""

from dataclasses import fields

from hypothesis import strategies as st

from purgatory.trace.errors import BadValue
from purgatory.trace.tables import EVENTS, EXTENSIONS, OPERATIONS, OUTCOMES, Table
from purgatory.trace.validation import FARTHEST_MS, INT64_MAX, INT64_MIN

# Good values and bad ones, for any column.
TEXTS = ["", "a", "b", "\udcff", "completed", "expired"]
FAR = [-FARTHEST_MS - 1, -FARTHEST_MS, FARTHEST_MS, FARTHEST_MS + 1]
NUMBERS = [-1, 0, 1, 2, 1.0, *FAR, INT64_MIN, INT64_MAX, INT64_MAX + 1, True, False, None]
LISTS = [(), ("a",), ("a", "a"), ["a", "b"], ("a", ""), ("a", None)]
VALUES = st.sampled_from([*TEXTS, *NUMBERS, *LISTS])
GOOD = {
    OPERATIONS: ("a", "b", 0, 1, ("a", "b"), 2),
    EVENTS: ("a", 0, 1, False),
    EXTENSIONS: ("a", 0, 1),
    OUTCOMES: ("a", "b", "completed", 0, "a", 0, 1, 2, 0),
}


@st.composite
def values(draw):
    """Rows of a table, in which few values are replaced by any."""
    table = draw(st.sampled_from(list(GOOD)))
    rows = [list(GOOD[table]) for _ in range(draw(st.integers(1, 4)))]
    for _ in range(draw(st.integers(0, 3))):
        row = draw(st.sampled_from(rows))
        row[draw(st.integers(0, len(row) - 1))] = draw(VALUES)
    return table, rows


def checked(table, rows):
    """The rows as the check of each row makes them; None if one is bad."""
    try:
        return [tuple(table.make(*row)) for row in rows]
    except BadValue:
        return None


def rows_of(batches):
    """The rows of batches of columns, as tuples."""
    return [row for columns in batches for row in zip(*columns, strict=True)]


class UncheckedTable(Table):
    """A table whose columns are not checked value by value."""

    def make_columns(self, *columns):
        raise AssertionError


def unchecked(table):
    """Return a table that fails a test which checks its columns value by value."""
    return UncheckedTable(*(getattr(table, field.name) for field in fields(table)))
