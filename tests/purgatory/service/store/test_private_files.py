"""Only their owner may read the files of a server, whatever the umask and what was there."""

import os
import stat

import pytest

from purgatory import StoreError
from purgatory.service import Client, Config
from purgatory.service.auth.key_store import KeyStore
from purgatory.service.daemon import ServiceDaemon
from purgatory.service.store.private_files import make_private_directory
from tests.testing.purgatory_harness import HANG


@pytest.fixture
def _open_umask():
    """Files that are made without a mode are readable by all."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def readable_by_others(directory):
    """Return the paths in a directory, itself included, that others may use in any way."""
    return [
        f"{path} {stat.filemode(path.stat().st_mode)}"
        for path in (directory, *directory.rglob("*"))
        if path.stat().st_mode & 0o077
    ]


def use(directory):
    """Run a server over a directory; returns what others may read while it runs, and after."""
    config = Config(data_dir=directory, bind="tcp://127.0.0.1:0", http_bind="", journal_seconds=0.1)
    with ServiceDaemon(config) as service, Client(service.server.address) as client:
        client.defer("k", timeout=HANG)
        client.flush()
        client.complete("k")
        found = readable_by_others(directory)
    return found, readable_by_others(directory)


@pytest.mark.usefixtures("_open_umask")
class TestServer:
    def test_an_open_directory(self, tmp_path):
        """One that was made for the server, as 0755, is shut; no file in it is readable."""
        directory = tmp_path / "data"
        directory.mkdir(mode=0o755)
        assert use(directory) == ([], [])
        names = {path.name for path in directory.rglob("*")}
        assert {"purgatory.db", "lock", "journal"} <= names
        assert any(name.endswith(".parquet") for name in names)

    def test_files_of_an_earlier_version(self, tmp_path):
        """Those that earlier versions made readable are shut at the next start."""
        use(tmp_path)
        KeyStore(tmp_path / "keys").new("shop")
        for path in (tmp_path, tmp_path / "purgatory.db", tmp_path / "lock"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        assert use(tmp_path) == ([], [])

    def test_a_directory_of_something_else(self, tmp_path):
        """It is refused, by path and mode, and left as it is."""
        directory = tmp_path / "home"
        directory.mkdir(mode=0o755)
        (directory / "letters").touch()
        with pytest.raises(StoreError, match=rf"{directory}: its mode is 0755, .* expected 0700"):
            use(directory)
        assert [path.name for path in directory.iterdir()] == ["letters"]
        assert use(directory / "data") == ([], [])


@pytest.mark.usefixtures("_open_umask")
class TestDirectory:
    def test_parents_are_made(self, tmp_path):
        """The directory itself is private."""
        make_private_directory(tmp_path / "a" / "b", ())
        assert readable_by_others(tmp_path / "a" / "b") == []

    def test_a_directory_of_all(self, tmp_path):
        """One with the sticky bit, as /tmp, is never shut."""
        shared = tmp_path / "tmp"
        shared.mkdir()
        shared.chmod(0o1777)
        (shared / "lock").touch()
        with pytest.raises(StoreError, match="its mode is 1777"):
            make_private_directory(shared, ("lock",))
        assert stat.S_IMODE(shared.stat().st_mode) == 0o1777
