"""`purgatory store handover`."""

from purgatory.cli import entry_point as cli


def test_a_handover(table, active, capsys):
    """The command says which server is active now."""
    table.open_row("b", "tcp://b:7411").look(register=True)
    assert cli.main(["store", "handover"]) == 0
    assert capsys.readouterr().out.startswith("tcp://b:7411 is active, with epoch 2, after ")


def test_without_a_standby(table, active, capsys):
    """It is refused, with exit code 1, and the active server stays."""
    assert cli.main(["store", "handover"]) == 1
    assert capsys.readouterr().out == "no server stands by: tcp://a:7411 stays active\n"
    assert (table.row.holder, table.row.handover) == ("a", False)


def test_nobody_takes_over(table, capsys):
    """The command waits no longer than it was told."""
    table.write(holder="a", address="tcp://a:7411")
    table.open_row("b", "tcp://b:7411").look(register=True)
    assert cli.main(["store", "handover", "--timeout", "0.2"]) == 1
    assert "within 0.2 s" in capsys.readouterr().out
