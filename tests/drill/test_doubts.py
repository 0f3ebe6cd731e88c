"""Groups in doubt, some of which are there: the store says of each what is true."""

import pytest

pytest.importorskip("psycopg")

from tests.drill.doubts import make_doubts


def test_doubts_are_decided_right(postgres_cluster):
    """By raising the own epoch; a thousand more by `python -m tests.drill.doubts`."""
    found = make_doubts(postgres_cluster, 40, seed=1)
    assert found.wrong == []
    assert 0 < found.there <= found.in_doubt
