"""StoreCopier, between two stores of one kind: the rest is in test_ends."""

from contextlib import closing

import pytest
from msgspec import Raw

from purgatory.errors import StoreError
from purgatory.service.store.contract import SKIPPED
from purgatory.service.store.rows import MAX_BATCH, OperationBatch, Options
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from purgatory.service.store_copy.copier import StoreCopier, batches_of, check_empty
from tests.testing.changes import changes_of
from tests.testing.random_commits import RandomCommits, everything


@pytest.mark.parametrize("seed", range(6))
def test_everything_is_copied(seed):
    """Also the last numbers of what was deleted."""
    commits = RandomCommits(seed)
    with closing(SqliteStore(None)) as source, closing(SqliteStore(None)) as target:
        for _ in range(20):
            source.commit(commits.changes())
        StoreCopier(source, target).run()
        found, expected = everything(target), everything(source)
        if not source.remembered.counts()[0]:  # without rows, their places begin anew
            del found["remembered"], expected["remembered"]
        assert found == expected


def test_a_store_without_anything():
    """It is copied, too."""
    with closing(SqliteStore(None)) as source, closing(SqliteStore(None)) as target:
        check_empty(target)
        assert StoreCopier(source, target).run() == (0, 0, 0)


def test_numbers_without_operations():
    """An empty server that was restored from a backup has skipped numbers, and no outcome."""
    with closing(SqliteStore(None)) as source, closing(SqliteStore(None)) as target:
        source.skip_outcome_numbers(SKIPPED)
        StoreCopier(source, target).run()
        assert everything(target) == everything(source)


def test_what_is_not_empty():
    """Anything, or only metadata."""
    with closing(SqliteStore(None)) as store:
        store.set_metadata({"a": 1})
        with pytest.raises(StoreError, match="has used"):
            check_empty(store)
    with closing(SqliteStore(None)) as store:
        store.commit(changes_of(limits=["k", 1, 0, 0.0]))
        with pytest.raises(StoreError, match="not empty"):
            check_empty(store)


def test_batches():
    """Those of one client and moment stay together, with all that was said of them."""
    items = [[f"o{n}", ["k"], 5, 1, "", Raw(b"\xc0")] for n in range(MAX_BATCH)]
    odd = [["x", ["k", "l"], 7, 2, "kind", Raw(b"\x01"), 0, Options(3, ("t",))]]
    written = [
        OperationBatch(1, "a", 9, items),
        OperationBatch(MAX_BATCH + 1, "a", 9, items),
        OperationBatch(2 * MAX_BATCH + 1, "b", 9, items),
        OperationBatch(3 * MAX_BATCH + 1, "b", 10, odd),
        OperationBatch(4 * MAX_BATCH, "b", 10, odd),
    ]
    with closing(SqliteStore(None)) as store:
        store.commit(changes_of(operations=written))
        found = list(batches_of(store.submissions()))
    assert [(one.first, one.client, len(one.operations)) for one in found] == [
        (one.first, one.client, len(one.operations)) for one in written
    ]
    assert found[-1].operations == odd
