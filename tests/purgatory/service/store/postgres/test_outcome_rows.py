"""Outcomes, many in a row."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory.service.store.postgres.outcome_rows import (
    MAX_OUTCOMES,
    OutcomeBodies,
    OutcomeHeads,
    outcome_rows,
    small_outcomes,
)
from purgatory.service.store.rows import StoredOutcome

VALUES = st.tuples(
    st.integers(1, 1 << 62),
    st.sampled_from(["completed", "expired"]),
    st.integers(0, 1 << 50),
    st.integers(0, 99),
    st.sampled_from(["", "k", "\0"]),
    st.sampled_from(["", b"\x01", bytearray(b"\x02\0")]),
)


@given(st.lists(VALUES, min_size=1, max_size=20), st.data())
def test_what_was_packed_is_read(values, data):
    """In any order, with gaps: rows do not overlap, and have all."""
    seqs = data.draw(
        st.lists(st.integers(1, 50), min_size=len(values), max_size=len(values), unique=True)
    )
    flat = [value for seq, rest in zip(seqs, values, strict=True) for value in (seq, *rest)]
    rows = outcome_rows(flat)
    expected = [
        StoredOutcome(seq, number, outcome, at_ms, late, key or None, result or None)
        for seq, (number, outcome, at_ms, late, key, result) in sorted(
            zip(seqs, values, strict=True)
        )
    ]
    assert [one for row in rows for one in row.outcomes()] == expected
    small = [one for row in rows for one in small_outcomes(row.all_seqs(), row.heads)]
    assert small == [one._replace(by_key=None, result=None) for one in expected]
    assert all(row.size == row.last - row.first + 1 for row in rows)
    assert all(one.last < two.first for one, two in pairwise(rows))


def test_sizes_of_rows():
    """None has more than a reader decodes at once."""
    flat = [v for seq in range(1, 1000) for v in (seq, seq, "completed", 5, 0, "", "")]
    sizes = [row.size for row in outcome_rows(flat)]
    assert sizes == [MAX_OUTCOMES] * 3 + [999 - 3 * MAX_OUTCOMES]


def test_without_some():
    """The others keep their numbers."""
    flat = [v for seq in range(4, 9) for v in (seq, seq, "completed", 5, 0, f"k{seq}", "")]
    [row] = outcome_rows(flat)
    left = row.without({4, 6})
    assert (left.first, left.last, left.size) == (4, 8, 3)
    assert [(one.seq, one.by_key) for one in left.outcomes()] == [(5, "k5"), (7, "k7"), (8, "k8")]


@pytest.mark.parametrize("kind", [OutcomeHeads, OutcomeBodies])
def test_columns_do_not_change(kind):
    """So any thread may read them."""
    columns = kind(*[1] * len(kind.__struct_fields__))
    for name in kind.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(columns, name, 2)
    assert columns == kind(*[1] * len(kind.__struct_fields__))
