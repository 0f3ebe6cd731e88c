"""Stores of each kind: what one wrote, another one opened at the same place reads."""

import pytest

from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from tests.testing.held_lease import open_store


class Place:
    """Where a store is; each one opened takes over from the one before."""

    def __init__(self, opener):
        self._opener = opener
        self._stores = []

    def open(self):
        """Open the store again, as a new server does."""
        self._stores.append(self._opener())
        return self._stores[-1]

    def close(self):
        """Close all stores."""
        for store in self._stores:
            store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """A place for each kind of store."""
    if request.param == "sqlite":
        made = Place(lambda: SqliteStore(tmp_path / "a.db"))
    else:
        url = request.getfixturevalue("postgres").url
        made = Place(lambda: open_store(url))
    yield made
    made.close()


@pytest.fixture
def store(place):
    """A new store."""
    return place.open()
