"""The head of a message: it is read without the rest, however it is written."""

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pytest

from purgatory.service.encoding import count_items, encode, pack, seq_of, type_of, unpack
from purgatory.service.protocol import Cancel, Hello, Query, Stats


@pytest.mark.parametrize(
    ("frame", "number", "seq"),
    [
        (encode(Hello(1, 2, "name")), 1, 1),
        (encode(Query(300, ["a"] * 1000)), 5, 300),
        (encode(Query(2**40, []))[:-1], 5, 2**40),
        (encode(Cancel(1000, ["a"] * 20)) + b"more", 4, 1000),
        (encode(Cancel(-1000, ["a"])), 4, None),
        (b"\xdc\x00\x03\xcc\x05\xcc\xc8\xdc\x00\x02", 5, 200),
        (b"\xdd\x00\x00\x00\x03\x05\x01\x92", 5, 1),
        (b"\x93\x05\xa1a", 5, None),
        (b"\x93\x05\xcd\x01", 5, None),
        (b"\x93\xa1a\x01\x92", None, None),
        (b"\x93\xcb", None, None),
        (b"\x93", None, None),
        (b"\xa1a", None, None),
        (b"", None, None),
    ],
)
def test_type_and_seq(frame, number, seq):
    """Whatever follows them; None where there is no such number."""
    assert (type_of(frame), seq_of(frame)) == (number, seq)


@pytest.mark.parametrize(
    ("frame", "count"),
    [
        (encode(Query(5, ["a"] * 3)), 3),
        (encode(Query(127, [])), 0),
        (encode(Query(2**40, ["a"] * 15)), 15),
        (encode(Query(300, ["a"] * 16)), 16),
        (encode(Cancel(-1000, ["a"] * 70_000)), 70_000),
        (b"\xdc\x00\x03\x05\xcc\xc8\xdc\x00\x02", 2),
        (b"\xdd\x00\x00\x00\x03\x05\x01\x92", 2),
        (encode(Hello(1, 2, "name")), 0),
        (encode(Stats(7)), 0),
        (b"", 0),
        (b"\x93", 0),
        (b"\xa1a", 0),
        (b"\x93\xa1a\x01\x92", 0),
    ],
)
def test_items_are_counted_without_decoding(frame, count):
    """Whatever the form of the numbers before the list; 0 if there is no list."""
    assert count_items(frame) == count


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (1 << 64, "it has an integer beyond 64 bits"),
        ([-(1 << 63) - 1], "it has an integer beyond 64 bits"),
        (
            datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))),
            "it has a time outside the years 1 to 9999 of UTC",
        ),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9))), "it has a time outside the years"),
        (memoryview(b"abcd")[::2], ".* is not C-contiguous"),
        (object(), "Encoding objects of type object is unsupported"),
    ],
)
def test_what_cannot_be_sent(value, reason):
    """The error begins with what the caller wanted."""
    with pytest.raises(TypeError, match=f"value cannot be sent: {reason}"):
        pack(value)


class Lying:
    """Returns nothing of use."""

    def __str__(self):
        raise AssertionError

    __float__ = __int__ = __index__ = __bytes__ = __str__


@pytest.mark.parametrize("value", [1.5, 2**63, -3, "ä", b"\xff"])
def test_an_instance_of_a_subclass(value):
    """It is sent as one of its base, whatever its own methods return; also in a key."""
    one = type("One", (Lying, type(value)), {})(value)
    assert pack([{one: one}]) == pack([{value: value}])


@dataclass(frozen=True)
class Point:
    """An object with fields, which MessagePack has as a map."""

    x: int = 1


@pytest.mark.parametrize("value", [{Point(): 1}, [{"a": {(1, Point()): {}}}]])
def test_an_object_as_a_key(value):
    """It is refused at once: no receiver could decode the value; as a value it is sent."""
    with pytest.raises(TypeError, match="payload cannot be sent: a key in it is an object"):
        pack(value, "payload")
    assert unpack(pack({"a": Point(), "b": [{(1, 2): {}}]})) == {"a": {"x": 1}, "b": [{(1, 2): {}}]}


def test_a_text_that_cannot_be_sent():
    """It is a ValueError, as half of a surrogate pair in a key is."""
    with pytest.raises(ValueError, match="value cannot be sent: 'utf-8' codec can't encode"):
        pack({"\ud800": 1})
