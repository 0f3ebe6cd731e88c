"""The connection of a command to a server: wrong options, and no server."""

import pytest

from purgatory.cli import entry_point as cli
from tests.testing.purgatory_harness import free_port

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["defer", "k", "--in", "-1"], "timeout is -1.0"),
        (["defer", "k", "--in", "nan"], "'nan' is not a valid duration"),
        (["defer", "k", "--need", "2"], "need is 2"),
        (["defer", "k", "--in", "1e12"], " s; expected at most 31622400.0 s (max_timeout)"),
        (["jobs", "schedule", "--at", "9000-01-01T00:00Z"], " s; expected at most 31622400.0 s"),
        (["stats", "--patience", "0"], "--patience 0"),
        (["stats", "--patience", "x"], "--patience x"),
        (["stats", "--key", "f"], "come together"),
        (["stats", "--key", "nowhere", "--server-key", "x"], "nowhere: No such file"),
        (["top", "--interval", "0"], "--interval 0"),
    ],
)
def test_mistakes(run, at, argv, told):
    """One line says what was expected; the exit code is 2."""
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
    assert "unexpected" not in err


@pytest.mark.parametrize(
    "command",
    [
        ["stats"],
        ["complete", "k"],
        ["query", "a"],
        *(["jobs", verb, "a"] for verb in ("cancel", "retry", "drop", "run", "show")),
        ["jobs", "reschedule", "a", "--in", "5"],
    ],
    ids=" ".join,
)
def test_no_server_there(run, command):
    """The error names the address, after no more than the patience."""
    address = f"tcp://127.0.0.1:{free_port()}"
    code, _, err = run(*command, "--address", address, "--patience", 0.2)
    assert code == 2
    assert address in err


# The second is refused for what it is to bind, too, but later.
@pytest.mark.parametrize("command", [["stats"], ["gateway", "--bind", "0.0.0.0:1"]])
@pytest.mark.parametrize("address", ["nonsense", "tcp://", "tcp://127.0.0.1", "gopher://a:1"])
def test_a_bad_address(address, command, capsys, monkeypatch):
    """One line that names it, and exit code 2."""
    monkeypatch.setenv("PURGATORY_ADDRESS", address)
    assert cli.main(command) == cli.FAILED
    errors = capsys.readouterr().err
    assert f"address is {address!r}" in errors
    assert "expected tcp://HOST:PORT" in errors
    assert errors.count("\n") == 1
