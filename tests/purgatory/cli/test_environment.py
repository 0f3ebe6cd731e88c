"""Misspelt variables and bad addresses are told in a line."""

import pytest

from purgatory.cli import entry_point as cli
from purgatory.cli.environment import misspelt


# The second is refused for what it is to bind, too, but later.
@pytest.mark.parametrize("command", [["stats"], ["gateway", "--bind", "0.0.0.0:1"]])
@pytest.mark.parametrize("address", ["nonsense", "tcp://", "tcp://127.0.0.1", "gopher://a:1"])
def test_a_bad_address(address, command, capsys, monkeypatch):
    """One line that names it, and exit code 2."""
    if "gateway" in command:
        pytest.importorskip("litestar")
    monkeypatch.setenv("PURGATORY_ADDRESS", address)
    assert cli.main(command) == cli.FAILED
    errors = capsys.readouterr().err
    assert f"address is {address!r}" in errors
    assert "such as tcp://127.0.0.1:7411" in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("PURGATORY_ADRESS", "PURGATORY_ADDRESS"),
        ("PURGATORY_DATADIR", "PURGATORY_DATA_DIR"),
        ("PURGATORY_max_pending", "PURGATORY_MAX_PENDING"),
        ("PURGATORY_HTTPBIND", "PURGATORY_HTTP_BIND"),
    ],
)
def test_a_misspelt_variable(name, nearest, capsys, monkeypatch):
    """A warning names the nearest one; the command goes on."""
    monkeypatch.setenv(name, "1")
    assert cli.main(["trace", "check", "/nothing"]) == cli.FAILED
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"purgatory: warning: {name} is no setting; did you mean {nearest}?"
    assert "/nothing" in second


def test_other_variables():
    """Those of other programs with our prefix are left alone, as those that are right."""
    ours = ["PURE", "ROUNDS", "SECONDS", "KILLS", "INTERRUPTS", "EXAMPLES", "DATA_DIR"]
    others = ["PORT", "SERVICE_HOST", "PORT_7411_TCP"]
    names = [f"PURGATORY_{name}" for name in ours + others]
    assert misspelt(dict.fromkeys([*names, "ADRESS"], "")) == {}
