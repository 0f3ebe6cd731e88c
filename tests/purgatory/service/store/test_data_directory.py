"""A data directory is its owner's alone, and has one server at a time."""

import contextlib
import os
import stat

import pytest

from purgatory import StoreError
from purgatory.service import ServerError
from purgatory.service.store.data_directory import data_directory_lock, make_private_directory


@pytest.fixture
def _open_umask():
    """Files that are made without a mode are readable by all."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_umask")
class TestDirectory:
    def test_parents_are_made(self, tmp_path):
        """The directory itself is private."""
        make_private_directory(tmp_path / "a" / "b", ())
        assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700

    def test_a_directory_of_all(self, tmp_path):
        """One with the sticky bit, as /tmp, is never shut."""
        shared = tmp_path / "tmp"
        shared.mkdir()
        shared.chmod(0o1777)
        (shared / "lock").touch()
        with pytest.raises(StoreError, match="its mode is 1777"):
            make_private_directory(shared, ("lock",))
        assert stat.S_IMODE(shared.stat().st_mode) == 0o1777

    @pytest.mark.parametrize("mode", [0o700, 0o755])
    def test_a_directory_of_another_user(self, tmp_path, monkeypatch, mode):
        """Only a closed one may be used, as by root."""
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        directory = tmp_path / "data"
        directory.mkdir()
        directory.chmod(mode)
        refused = pytest.raises(StoreError, match="its mode is 0755")
        with contextlib.nullcontext() if mode == 0o700 else refused:
            make_private_directory(directory, ("lock",))
        assert stat.S_IMODE(directory.stat().st_mode) == mode


@pytest.mark.usefixtures("_open_umask")
@pytest.mark.parametrize(
    ("files", "is_shut"),
    [
        ([], True),
        (["lost+found"], True),
        (["theirs"], False),
        (["lost+found", "theirs"], False),
        (["mine"], True),
        (["mine", "theirs"], True),
    ],
)
def test_which_directories_are_shut(tmp_path, files, is_shut):
    """An empty one, or one with a file of the server's own; another may be in use."""
    for name in files:
        (tmp_path / name).touch()
    tmp_path.chmod(0o755)
    with contextlib.nullcontext() if is_shut else pytest.raises(StoreError, match="is 0755"):
        make_private_directory(tmp_path, ("mine", "of mine, too"))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == (0o700 if is_shut else 0o755)


class TestLock:
    def test_one_server_at_a_time(self, tmp_path):
        """The second one is refused, by the directory; after the first one, it is let in."""
        with data_directory_lock(tmp_path / "data"):
            with (
                pytest.raises(ServerError, match=f"{tmp_path}/data: another server"),
                data_directory_lock(tmp_path / "data"),
            ):
                pass
            assert stat.S_IMODE((tmp_path / "data" / "lock").stat().st_mode) == 0o600
        with data_directory_lock(tmp_path / "data"):
            pass
