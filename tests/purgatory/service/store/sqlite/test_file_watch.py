"""FileWatch: a server whose files are gone ends soon, and acknowledges nothing more."""

import contextlib
import os
import shutil
import time
import urllib.request

import pytest
import zmq

from purgatory.service.protocol import Submit, Submitted
from purgatory.service.store.sqlite.file_watch import FileWatch
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess
from tests.testing.servers import RawPeer
from tests.testing.step_server import operation

NAMES = ("purgatory.db", "purgatory.db-wal", "purgatory.db-shm")


def replace(path):
    """Put a copy in a file's place."""
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def cut_off(path):
    os.truncate(path, path.stat().st_size // 2)


def move(path):
    path.rename(path.with_name("moved"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("harm", [os.unlink, replace, move, cut_off])
def test_what_may_become_of_a_file(tmp_path, name, harm):
    """It may be deleted, replaced, renamed or cut off; each is told with the file's name."""
    for each in NAMES:
        (tmp_path / each).write_bytes(bytes(1000))
    watch = FileWatch(tmp_path / NAMES[0])
    assert watch.trouble() == ""
    with (tmp_path / name).open("ab") as file:
        file.write(bytes(1000))
    assert watch.trouble() == ""
    harm(tmp_path / name)
    expected = "" if harm is cut_off and name == NAMES[2] else f"{tmp_path / name}: "
    assert watch.trouble().startswith(expected)
    assert bool(watch.trouble()) == bool(expected)


def test_a_log_that_comes_later(tmp_path):
    """A file that is not there yet is watched when it is."""
    (tmp_path / "a.db").touch()
    watch = FileWatch(tmp_path / "a.db")
    assert watch.trouble() == ""
    (tmp_path / "a.db-wal").touch()
    assert watch.trouble() == ""
    (tmp_path / "a.db-wal").unlink()
    assert "a.db-wal: " in watch.trouble()


def ready(url):
    """Return the status of /readyz; 0 if the server has ended."""
    try:
        with urllib.request.urlopen(f"{url}readyz", timeout=HANG) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@pytest.mark.parametrize(
    ("place", "harm"),
    [
        ("purgatory.db", os.unlink),
        ("purgatory.db-wal", os.unlink),
        ("purgatory.db-wal", cut_off),
        ("", move),
        ("", shutil.rmtree),
    ],
)
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_server_ends(tmp_path, place, harm, is_busy):
    """With 2 and a line that names the file; after a second it acknowledges nothing."""
    context = zmq.Context()
    with contextlib.ExitStack() as stack:
        stack.callback(context.destroy, 0)
        serve = stack.enter_context(ServerProcess(tmp_path / "data", "--http-bind", "127.0.0.1:0"))
        url = serve.process.stdout.readline().split()[-1]
        peer = RawPeer(context, serve.address)
        peer.hello()
        submit(peer, 0)
        assert ready(url) == 200
        harm(tmp_path / "data" / place)
        harmed, acknowledged, number = time.monotonic(), 0.0, 0
        while is_busy and ready(url) == 200 and time.monotonic() < harmed + HANG:
            number += 1
            if submit(peer, number):
                acknowledged = time.monotonic()
        serve.process.wait(HANG)
        errors = serve.process.stderr.read()
        assert serve.process.returncode == 2, errors
        assert f"{tmp_path / 'data' / place}" in errors
        assert acknowledged < harmed + 1.0


def submit(peer, number):
    """Submit an operation; False if there is no answer, for the server ends."""
    peer.send(Submit(number, [operation(f"op {number}", f"key {number}")]))
    return bool(peer.socket.poll(500)) and isinstance(peer.receive(), Submitted)


def test_a_server_that_is_closed(serve):
    """The end of a server, which deletes its log, is no trouble."""
    for _ in range(3):
        server = serve()
        server.close()
        assert server.failure is None


def test_a_new_database_beside_a_journal(tmp_path):
    """The next start says that the journal is of another database."""
    context = zmq.Context()
    with contextlib.ExitStack() as stack:
        stack.callback(context.destroy, 0)
        serve = ServerProcess(tmp_path / "data", "--journal-seconds", "0.05")
        with serve:
            peer = RawPeer(context, serve.address)
            peer.hello()
            submit(peer, 1)
            assert "another database" not in serve.end()[1]
        for name in NAMES:
            (tmp_path / "data" / name).unlink(missing_ok=True)
        with serve:
            assert f"{tmp_path}/data/journal: the journal is of another database" in serve.end()[1]


def test_a_deleted_lock_file(tmp_path):
    """It lets no second server in, and the first one goes on."""
    with ServerProcess(tmp_path / "data") as first:
        (tmp_path / "data" / "lock").unlink()
        for _ in range(2):
            with pytest.raises(AssertionError, match="another server has its data there"):
                ServerProcess(tmp_path / "data").start()
        assert first.end() == (0, "")
