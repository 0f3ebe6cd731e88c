"""Both stores, given the same commits in any order, have the same: SQLite's is the model."""

import pytest

from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from tests.testing.held_lease import open_store
from tests.testing.random_commits import RandomCommits, everything

COMMITS = 40


@pytest.mark.parametrize("seed", range(12))
def test_they_have_the_same(postgres, seed):
    """After each of many commits, and after another server has opened it."""
    commits = RandomCommits(seed)
    model, store = SqliteStore(None), open_store(postgres.url)
    for count in range(COMMITS):
        changes = commits.changes()
        model.commit(changes)
        store.commit(changes)
        if count % 10 == 9:
            store.close()
            store = open_store(postgres.url)
            assert everything(store) == everything(model)
    store.close()
    model.close()
