"""A path opens a file, none a store in memory."""

from contextlib import closing

from purgatory.service.store.opening import open_file


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
