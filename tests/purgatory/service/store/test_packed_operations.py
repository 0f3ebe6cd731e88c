"""PackedBatch: a row of many operations, of which some can be read, deleted and moved."""

import pytest
from msgspec import Raw

from purgatory.service.store.packed_operations import PackedBatch
from purgatory.service.store.rows import OperationBatch, Options, StoredOperation


def batch(count=3, options=None):
    """A packed batch of the numbers from 5 on."""
    items = [[f"op{n}", ["k", "k"], 1000, 1, "", Raw(b"\x01"), 0] for n in range(5, 5 + count)]
    if options is not None:
        items[0].append(options)
    return PackedBatch.of(OperationBatch(5, "me", 100, items))


def test_what_was_packed_is_read():
    """Each operation has its number, its distinct keys and its deadline."""
    row = batch()
    found = row.all()
    assert [one.op_id for one in found] == ["op5", "op6", "op7"]
    assert {(one.client, one.deadline_ms, one.keys, one.payload) for one in found} == {
        ("me", 1100, ("k",), b"\x01")
    }


def test_a_short_operation():
    """Columns that its row lacks are read as of an operation that asks for nothing special."""
    [one] = PackedBatch.of(OperationBatch(1, "me", 100, [["op", ["k"], 1000]])).all()
    assert one == StoredOperation(1, "me", "op", "", 100, 1100, 1, ("k",), None)


def test_some_are_read():
    """Those that the row lacks are left out."""
    assert [one.number for one in batch().some([7, 5, 99])] == [7, 5]


def test_the_rest_of_a_row_is_read():
    """What was read before or was deleted is left out."""
    assert [one.number for one in batch(4).all(5, {7})] == [6, 8]
    assert [one.number for one in batch().without({5}).all(5)] == [6, 7]


@pytest.mark.parametrize("number", range(4, 9))
def test_from_and_before_a_number(number):
    """That number itself is in neither."""
    row = batch()
    assert [one.number for one in row.all(number)] == [n for n in (5, 6, 7) if n > number]
    assert [one.number for one in row.beyond(number, newest=True)] == [
        n for n in (7, 6, 5) if n < number
    ]


def test_some_are_deleted():
    """The others keep their numbers."""
    left = batch().without({6})
    assert (left.first, left.last, left.size) == (5, 7, 2)
    assert [one.op_id for one in left.some([5, 6, 7])] == ["op5", "op7"]


def test_times_move():
    """All move with the row but those that are named; options are kept."""
    row = batch(options=Options(7))._replace(submitted_ms=150)
    moved = row._replace(operations=row.moved(50, {6}))
    found = moved.all()
    assert [one.submitted_ms for one in found] == [150, 100, 150]
    assert [one.options for one in found] == [Options(7), None, None]
