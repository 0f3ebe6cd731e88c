"""Rows come in order, each in one portion."""

import pytest

from purgatory.service.portions import in_portions


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [1]), (3, [3]), (4, [3, 1]), (6, [3, 3])]
)
def test_portions(count, sizes):
    """All but the last have the size that was asked for, and none is empty."""
    portions = list(in_portions(iter(range(count)), 3))
    assert [len(portion) for portion in portions] == sizes
    assert [row for portion in portions for row in portion] == list(range(count))
