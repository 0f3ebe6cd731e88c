"""What an operator sees of the servers over one database, and the request to hand over."""

import pytest

from purgatory.service.cluster.store_report import HandoverRefused, hand_over, look_at_store
from purgatory.service.store.lease import ClockReading


@pytest.fixture
def row(table):
    """The connection of a command."""
    return table.open_row("", "")


@pytest.fixture
def active(table):
    """A server that is active."""
    row = table.open_row("a", "tcp://a:7411")
    row.raise_epoch(table.seen())
    return row


@pytest.fixture
def standby(table):
    """A server that stands by."""
    row = table.open_row("b", "tcp://b:7411")
    row.look(register=True)
    return row


@pytest.fixture
def ask(row, boot):
    """Call a function with a clock that goes on, and `act` while it waits."""

    def ask(function, act=lambda: None):
        def wait(seconds):
            boot.pass_seconds(seconds)
            act()

        return function(row, 5.0, wait=wait, monotonic=lambda: boot() / 1e9)

    return ask


def test_an_active_server(ask, active, standby, table):
    """Its beat shows that it lives."""
    report = ask(look_at_store, lambda: active.beat(ClockReading(5)))
    assert (report.is_alive, report.standbys) == (True, ["tcp://b:7411"])
    assert report.seen.address == "tcp://a:7411"


def test_a_server_that_has_died(ask, active):
    """It gives no sign of life for the time that a standby would wait."""
    report = ask(look_at_store)
    assert (report.is_alive, report.standbys, report.seen.holder) == (False, [], "a")


def test_no_server(ask):
    """Nothing is waited for."""
    assert not ask(look_at_store, lambda: pytest.fail("it waits")).is_alive


def test_a_handover(ask, active, standby, table):
    """The next server is told."""

    def act():
        if table.row.handover:
            active.release(ClockReading(0))
            standby.raise_epoch(table.seen())

    seen = ask(hand_over, act)
    assert (seen.address, seen.epoch, seen.handover) == ("tcp://b:7411", 2, False)


def test_a_handover_without_a_server(ask, standby):
    """There is nothing to hand over."""
    with pytest.raises(HandoverRefused, match="no server is active"):
        ask(hand_over)


def test_a_handover_without_a_standby(ask, active, table):
    """It is refused, and the active server is not asked."""
    with pytest.raises(HandoverRefused, match="no server stands by: tcp://a:7411 stays active"):
        ask(hand_over)
    assert not table.row.handover


def test_a_standby_that_has_died_is_none(ask, active, standby, table, boot):
    """It has registered, and looks no more."""
    boot.pass_seconds(10)
    with pytest.raises(HandoverRefused, match="no server stands by"):
        ask(hand_over)


def test_a_handover_that_no_server_takes(ask, active, standby):
    """The caller does not wait for ever."""
    with pytest.raises(HandoverRefused, match="within 5 s"):
        ask(hand_over)


def test_a_handover_that_the_former_server_takes_back(ask, active, standby, table):
    """With another id: the command does not call it another server."""
    again = table.open_row("a2", "tcp://a:7411")

    def act():
        if table.row.handover:
            active.release(ClockReading(0))
            again.raise_epoch(table.seen())

    with pytest.raises(HandoverRefused, match="taken over: tcp://a:7411 is active again"):
        ask(hand_over, act)


def test_a_server_that_was_fenced_meanwhile(ask, active, standby, table, row):
    """The request is for the server that was seen, and for no other."""
    standbys = row.standbys
    row.standbys = lambda: (table.write(holder="c"), standbys())[1]
    with pytest.raises(HandoverRefused, match="is not active any more"):
        ask(hand_over)
