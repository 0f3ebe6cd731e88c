"""Names of schemas and sessions."""

import pytest

from purgatory.errors import StoreError
from purgatory.service.store.postgres.namespace import namespace_of


def test_names():
    """A partition has a schema of its own; sessions say whose they are."""
    assert namespace_of("").schema == "purgatory"
    assert namespace_of("orders").table("lease") == "purgatory_orders.lease"
    assert namespace_of("p").session_name(7, "abc") == "purgatory:purgatory_p:7:abc"


def test_a_long_name_of_a_session():
    """It is as long as the database keeps it."""
    name = namespace_of("p" * 20).session_name(10**9, "h" * 64)
    assert len(name) == 63
    assert name.startswith(f"purgatory:purgatory_{'p' * 20}:1000000000:h")


@pytest.mark.parametrize("partition", ["A", "a-b", "a.b", "a b", "a" * 21, "\u00fc", 'a"'])
def test_other_partitions(partition):
    """They are refused, by name."""
    with pytest.raises(StoreError, match="partition is"):
        namespace_of(partition)
