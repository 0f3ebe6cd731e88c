"""Packed tables: what is deleted takes no more space than the rest."""

from types import SimpleNamespace

import pytest
from msgspec import Raw

from purgatory.errors import StoreError
from purgatory.service.store.postgres.packed_tables import _AT_ONCE, rewriting
from purgatory.service.store.rows import MAX_BATCH, OperationBatch
from tests.testing.changes import changes_of
from tests.testing.held_lease import open_store


def submit(count):
    """Return a commit of operations of one client, and their outcomes."""
    numbers = range(1, count + 1)
    items = [[f"op-{n}", ["k"], 999, 1, "", Raw(b"\xc0")] for n in numbers]
    batches = [
        OperationBatch(start + 1, "c", 1, items[start : start + MAX_BATCH])
        for start in range(0, count, MAX_BATCH)
    ]
    ends = [v for n in numbers for v in (n, n, "completed", 5, 0, "", "")]
    return changes_of(operations=batches, outcomes=ends)


def deleted(numbers):
    """Return a commit that deletes operations and their outcomes."""
    return changes_of(delete_operations=list(numbers), delete_outcomes=list(numbers))


def counts(database):
    """Return of both tables: size and remaining of each row, and how many notes there are."""
    return [
        (
            database.execute(f"SELECT size, remaining FROM purgatory.{table} ORDER BY first"),
            database.execute(f"SELECT count(*) FROM purgatory.{notes}")[0][0],
        )
        for table, notes in (("batches", "forgotten"), ("outcomes", "forgotten_outcomes"))
    ]


def test_a_few_are_noted(postgres):
    """The row is not written anew."""
    store = open_store(postgres.url)
    store.commit(submit(100))
    store.commit(deleted(range(1, 11)))
    assert counts(postgres) == [([(100, 90)], 10)] * 2
    store.close()


def test_half_of_a_row(postgres):
    """It is written anew with the next commit that deletes, and the notes are gone."""
    store = open_store(postgres.url)
    store.commit(submit(100))
    store.commit(deleted(range(1, 61)))
    assert counts(postgres) == [([(100, 40)], 60)] * 2
    store.commit(deleted([61]))
    assert counts(postgres) == [([(40, 39)], 1)] * 2
    assert [row.number for row in store.operations()] == list(range(62, 101))
    store.close()


def test_a_commit_that_is_refused(postgres):
    """The next commit that deletes writes the row anew."""
    store = open_store(postgres.url)
    store.commit(submit(100))
    store.commit(deleted(range(1, 61)))
    refused = deleted([61])
    refused.operations = submit(1).operations  # their number is taken
    with pytest.raises(StoreError, match="cannot write"):
        store.commit(refused)
    assert counts(postgres) == [([(100, 40)], 60)] * 2
    store.commit(deleted([61]))
    assert counts(postgres) == [([(40, 39)], 1)] * 2
    store.close()


def test_after_another_start(postgres):
    """A sparse row is found by the next server, too."""
    store = open_store(postgres.url)
    store.commit(submit(100))
    store.commit(deleted(range(1, 61)))
    store.close()
    store = open_store(postgres.url)
    store.commit(deleted([61]))
    assert counts(postgres) == [([(40, 39)], 1)] * 2
    store.close()


def test_all_of_a_row(postgres):
    """In one or several commits: row and notes are gone."""
    store = open_store(postgres.url)
    store.commit(submit(300))
    store.commit(deleted(range(1, 129)))
    store.commit(deleted(range(140, 301)))
    store.commit(deleted(range(129, 140)))
    assert counts(postgres) == [([], 0)] * 2
    store.close()


@pytest.mark.parametrize("count", [0, 1, _AT_ONCE - 1, _AT_ONCE, _AT_ONCE + 1, 2 * _AT_ONCE + 1])
def test_how_many_rows_a_commit_rewrites(count):
    """A part of them: clients wait. The next ones do the rest."""
    table = SimpleNamespace(
        sparse=set(range(count)),
        rows_of=lambda firsts, columns: [(first, first + 9) for first in firsts],
        deleted=lambda first, last: [(number,) for number in range(first, last, 9)],
        rewrite=lambda first, deleted, columns: first,
        forget=lambda numbers: None,
    )
    database = SimpleNamespace(rows=list)
    rewritten = []
    while table.sparse:
        made = rewriting(database, table, "", lambda row, deleted: {})
        assert len(made) == 2 * min(_AT_ONCE, count - len(rewritten))
        rewritten += made[::2]
        table.sparse.difference_update(table.rewritten)
    assert sorted(rewritten) == list(range(count))
    assert rewriting(database, table, "", lambda row, deleted: {}) == []
