"""Watch keys: which are valid, which are distinct, and which are of built-in types."""

import enum
import subprocess
import sys
from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory.core.keys import are_builtin_keys, check_need, distinct_keys, is_builtin_key


class Text(str):
    """A subclass of str, which could define __eq__."""

    __slots__ = ()


class Level(enum.IntEnum):
    LOW = 1


Pair = namedtuple("Pair", "a b")  # noqa: PYI024  # a class made at run time

SIMPLE = st.one_of(st.integers(0, 3), st.sampled_from(["a", "b", b"a", True, 1.0, None]))
KEYS = st.lists(st.one_of(SIMPLE, st.tuples(SIMPLE, SIMPLE)), min_size=1, max_size=7)


class TestPlain:
    @pytest.mark.parametrize("key", ["k", 7, -(2**80), b"k", (), ("topic", 3), (b"x", "y", 1)])
    def test_exact_built_in_types_are(self, key):
        """Keys of these types are hashed and compared without any Python code."""
        assert is_builtin_key(key)

    @pytest.mark.parametrize(
        "key",
        [
            Text("k"),
            Level.LOW,
            Pair(1, 2),
            True,
            None,
            1.5,
            object(),
            ("a", Text("k")),
            ((1, 2), 3),
        ],
    )
    def test_what_may_run_code_or_is_rare_is_not(self, key):
        """Subclasses may define __eq__, and only one level of a tuple is looked into."""
        assert not is_builtin_key(key)
        assert not are_builtin_keys(("a", key))

    def test_bytes_are_not_when_comparing_them_warns(self):
        """Under `python -b`, comparing bytes with a str runs the warnings machinery."""
        check = "from purgatory.core.keys import is_builtin_key as f; print(f(b'x'), f('x'))"
        command = [sys.executable, "-b", "-c", check]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout.split() == ["False", "True"]


class TestDistinct:
    @given(KEYS)
    def test_is_what_a_dict_makes_of_them(self, keys):
        """Of equal keys the first one is kept, in order, for any collection."""
        expected = list(dict.fromkeys(keys))
        for collection in (tuple(keys), keys, iter(keys)):
            found = distinct_keys(collection)
            assert list(found) == expected
            assert [type(key) for key in found] == [type(key) for key in expected]

    @pytest.mark.parametrize("keys", [([],), ("a", []), ("a", ({},)), 5, None, "abc", b"abc"])
    def test_type_error(self, keys):
        """Unhashable keys, anything but a collection, and a single str are refused."""
        with pytest.raises(TypeError, match="keys is"):
            distinct_keys(keys)

    @pytest.mark.parametrize("keys", [(), [], iter(())])
    def test_none_is_a_value_error(self, keys):
        """An empty collection is refused."""
        with pytest.raises(ValueError, match="keys is empty"):
            distinct_keys(keys)


def test_need_is_between_one_and_all():
    """need must be an int."""
    check_need(3, 3)
    for need in (0, 4):
        with pytest.raises(ValueError, match="expected 1 to 3"):
            check_need(need, 3)
    with pytest.raises(TypeError, match="need is True"):
        check_need(True, 3)


@pytest.mark.parametrize("keys", ["ab", b"ab", bytearray(b"ab"), memoryview(b"ab")])
def test_a_text_is_no_collection_of_keys(keys):
    """The letters or bytes of one are not what a caller means to watch."""
    with pytest.raises(TypeError, match="expected a collection of keys"):
        distinct_keys(keys)
