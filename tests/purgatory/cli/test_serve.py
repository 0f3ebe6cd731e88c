"""`purgatory serve` in a process of its own."""

import signal

import pytest

from purgatory.cli import entry_point as cli
from purgatory.service import Client
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(tmp_path, number):
    """With 0, and without a word of complaint; what waits is there again."""
    with ServerProcess(tmp_path / "data") as serve, Client(serve.address, timeout=HANG) as client:
        future = client.defer("k", timeout=HANG)
        client.flush()
        assert serve.end(number) == (0, "")
        assert serve.start() == f"serving at {serve.address}, 1 waiting\n"
        assert client.complete("k", 7) == 1
        assert future.result(HANG) == 7
        assert serve.end(number) == (0, "")


def test_two_clients_in_two_processes(tmp_path):
    """One defers, the other completes; the server restarts in between."""
    complete = (
        "import sys\n"
        "from purgatory import Client\n"
        "with Client(sys.argv[1]) as client:\n"
        "    print(client.complete('k', {'from': 'afar'}))\n"
    )
    with ServerProcess(tmp_path / "data") as serve, Client(serve.address, timeout=HANG) as client:
        future = client.defer("k", timeout=HANG)
        client.flush()
        serve.kill()
        serve.start()
        assert serve.run_python(complete, serve.address) == "1\n"
        assert future.result(HANG) == {"from": "afar"}
        assert serve.end() == (0, "")


def test_a_hang_up_is_no_end(tmp_path):
    """It reloads."""
    with ServerProcess(tmp_path / "data", "--memory") as serve:
        serve.process.send_signal(signal.SIGHUP)
        with Client(serve.address, timeout=HANG) as client:
            assert client.stats()["pending"] == 0
        assert serve.end() == (0, "")
        assert not (tmp_path / "data").exists()


def test_what_keeps_it_from_starting(tmp_path, capsys):
    """Is told in one line, with exit code 2."""
    with ServerProcess(tmp_path / "data") as serve:
        for flags, words in (
            (["--max-keys", "none"], "--max-keys is 'none'; expected a whole number"),
            (["--config", str(tmp_path / "none")], "none: No such file or directory"),
            (["--data-dir", str(tmp_path / "data")], "another server has its data there"),
            (["--memory", "--bind", serve.address], f"cannot listen at {serve.address}"),
            (["--memory", "--bind", "nonsense"], "cannot listen at nonsense"),
        ):
            assert cli.main(["serve", "--http-bind", "", *flags]) == cli.FAILED
            errors = capsys.readouterr().err
            assert words in errors
            assert errors.count("\n") == 1


def test_the_help_says_it_all(capsys):
    """Every setting, and its default."""
    assert cli.main(["serve", "--help"]) == 0
    words = capsys.readouterr().out
    for flag in ("--bind", "--data-dir", "--memory", "--insecure", "--max-pending-per-client"):
        assert flag in words
    assert "tcp://127.0.0.1:7411" in words
