"""Values too deep for some decoder: seen without decoding, refused by both ends."""

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from purgatory.service.encoding import pack
from purgatory.service.nesting import MAX_LEVELS, _levels, is_too_deep
from tests.testing.step_server import nested


def levels_of(value):
    """Count the levels of a decoded value."""
    if isinstance(value, dict):
        return 1 + max([levels_of(part) for pair in value.items() for part in pair], default=0)
    if isinstance(value, list | tuple):
        return 1 + max([levels_of(part) for part in value], default=0)
    return 0


# For each format of a length.
LENGTHS = [0, 1, 2, 4, 8, 16, 31, 32, 255, 256, 65_535, 65_536]


def of_length(length):
    """Bytes, a text and an extension that look like containers."""
    return [b"\x91" * length, "\x81" * length, msgspec.msgpack.Ext(5, b"\x91" * length)]


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.sampled_from([leaf for length in LENGTHS[:-2] for leaf in of_length(length)])
)
values = st.recursive(
    leaves,
    lambda some: (
        st.lists(some) | st.dictionaries(st.text(), some) | st.lists(some, min_size=16, max_size=20)
    ),
)


@given(values)
def test_counts_as_a_decoder_does(value):
    """For each format of the specification that an encoder writes."""
    assert _levels(msgspec.msgpack.encode(value)) == levels_of(value)


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length):
    """Each format of a length is passed over, whatever its bytes look like."""
    for leaf in of_length(length):
        assert _levels(msgspec.msgpack.encode([[leaf], leaf])) == 2


HEADERS = {
    "fixarray": b"\x91",
    "array16": b"\xdc\x00\x01",
    "array32": b"\xdd\x00\x00\x00\x01",
    "fixmap": b"\x81\xa1k",
    "map16": b"\xde\x00\x01\x01",
    "map32": b"\xdf\x00\x00\x00\x01\xc0",
    "in a key": b"\x81",
}


@pytest.mark.parametrize("name", HEADERS)
def test_the_bound(name):
    """MAX_LEVELS are taken, one more is not, for each header of containers."""
    header = HEADERS[name]
    tail = b"\xc0\xc0" * (MAX_LEVELS + 1) if name == "in a key" else b"\xc0"
    at_bound = header * MAX_LEVELS + tail
    assert not is_too_deep(at_bound)
    assert is_too_deep(header + at_bound)


def test_many_containers_beside_each_other():
    """They are no levels; nor are the bytes of texts that look like containers."""
    assert not is_too_deep(msgspec.msgpack.encode([[1, {"a": []}]] * 10_000))
    assert not is_too_deep(msgspec.msgpack.encode(b"\x91" * 10_000))
    assert not is_too_deep(b"")


def test_pack_refuses_in_the_caller():
    """A clear error, before anything is sent."""
    assert pack(nested(MAX_LEVELS))
    with pytest.raises(TypeError, match=f"more than {MAX_LEVELS} levels"):
        pack(nested(MAX_LEVELS + 1))
