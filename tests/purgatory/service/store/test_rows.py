"""The references of results to the value that many outcomes share."""

import pytest
from msgspec import Raw

from purgatory.service.encoding import encode, unpack
from purgatory.service.errors import Malformed
from purgatory.service.store.rows import reference_to, spread_of


@pytest.mark.parametrize("number", [1, 255, 256, (1 << 63) - 1])
def test_a_reference_has_a_number(number):
    """It is found again."""
    assert spread_of(bytes(reference_to(number))) == number


@pytest.mark.parametrize("value", [None, 0, b"\xc1", "x", [1], {"a": b"\xc1"}])
def test_a_value_is_no_reference(value):
    """Nor is a reference a value that a client could send."""
    assert spread_of(encode(value)) == spread_of(None) == spread_of(b"") == 0
    with pytest.raises(Malformed):
        unpack(Raw(bytes(reference_to(1))))
