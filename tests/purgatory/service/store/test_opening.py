"""A path opens a file, none a store in memory."""

import sys
from contextlib import closing

import pytest

from purgatory.errors import StoreError
from purgatory.service.store.opening import open_file, open_lease_row, open_postgres


def test_a_file_is_kept(tmp_path):
    """What was written is there when the file is opened again."""
    with closing(open_file(tmp_path / "a.db")) as store:
        store.set_metadata({"a": 1})
        assert store.stored_bytes() > 0
    with closing(open_file(tmp_path / "a.db")) as store:
        assert store.metadata()["a"] == 1


def test_memory():
    """Without a path nothing is on disk."""
    with closing(open_file(None)) as store:
        store.set_metadata({"a": 1})
        assert store.metadata()["a"] == 1
        assert (store.stored_bytes(), store.trouble()) == (0, "")


@pytest.mark.parametrize(
    "open_it",
    [
        lambda: open_postgres("postgresql://x", "", None),
        lambda: open_lease_row("postgresql://x", "", "me", "tcp://x"),
    ],
    ids=["store", "lease"],
)
def test_without_the_driver(monkeypatch, open_it):
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"needs psycopg: pip install 'timer-purgatory\[postgres"):
        open_it()
