"""Heartbeat: beats, looks, and what it finds out."""

import threading

import pytest

from purgatory.service.cluster.heartbeat import BEATS, COUNT_S, Heartbeat
from purgatory.service.cluster.takeover import take_over
from tests.testing.purgatory_harness import HANG

TAKEOVER_S = 4.0


@pytest.fixture
def row(table):
    """The connection of the active server."""
    return table.open_row("me", "tcp://a:7411")


@pytest.fixture
def lost():
    """Set once the lease is lost."""
    return threading.Event()


@pytest.fixture
def lease(table, row, boot, lost):
    """Its lease."""
    return take_over(
        row, table.seen(), TAKEOVER_S, stopped=lambda: False, boot_ns=boot, on_lost=lost.set
    )


@pytest.fixture
def asked():
    """One item for each call of `on_handover`."""
    return []


@pytest.fixture
def heartbeat(row, lease, asked):
    """A heartbeat that the test steps."""
    return Heartbeat(row, lease, TAKEOVER_S, on_handover=lambda: asked.append(1))


def test_it_beats_four_times_while_a_standby_waits(heartbeat, table, boot):
    """In between it only looks."""
    beats = [table.row.beat]
    for _ in range(40):
        boot.pass_seconds(TAKEOVER_S / 40)
        heartbeat.step()
        beats.append(table.row.beat)
    assert len(set(beats)) - 1 == BEATS


def test_each_beat_renews_the_lease_and_the_clock(heartbeat, lease, table, boot):
    """However long the server has nothing to write."""
    for _ in range(20):
        boot.pass_seconds(TAKEOVER_S / BEATS)
        heartbeat.step()
        assert lease.is_valid()
    assert table.row.clock_ms == lease.now_ms()
    assert heartbeat.beat_ns == boot()


def test_a_look_renews_nothing(heartbeat, lease, boot, table):
    """Only what the database has written does: a replica may be read for ever."""
    valid_until_ns = lease._valid_until_ns
    boot.pass_seconds(0.1)
    heartbeat.step()
    assert lease._valid_until_ns == valid_until_ns


def test_another_holder_is_found_out(heartbeat, lease, table):
    """By a look, before the next beat."""
    table.write(holder="other", epoch=9)
    heartbeat.step()
    assert "another server" in lease.lost


def test_a_beat_of_another_holder_changes_nothing(heartbeat, lease, table, boot):
    """A process that slept beats too late."""
    table.write(holder="other", epoch=9)
    before = table.row
    boot.pass_seconds(TAKEOVER_S)
    heartbeat.step()
    assert lease.lost
    assert table.row == before


def test_an_epoch_that_its_own_store_has_raised(heartbeat, lease, table, boot):
    """A commit in doubt does not cost the lease."""
    table.write(epoch=table.row.epoch + 1)
    boot.pass_seconds(TAKEOVER_S / BEATS)
    heartbeat.step()
    assert not lease.lost
    assert lease.is_valid()


def test_while_the_database_is_away(heartbeat, lease, table, boot, caplog):
    """The lease ends, and is valid again with the first answer; the log says each once."""
    table.away = True
    for _ in range(50):
        boot.pass_seconds(0.1)
        heartbeat.step()
    assert not lease.is_valid()
    assert "does not answer" in heartbeat.trouble
    table.away = False
    heartbeat.step()
    assert lease.is_valid()
    assert not heartbeat.trouble
    assert len(caplog.records) == 2


def test_a_lease_that_was_taken_meanwhile(heartbeat, lease, table, caplog):
    """The log does not say that it is renewed."""
    table.away = True
    heartbeat.step()
    table.away = False
    table.write(holder="another")
    heartbeat.step()
    assert lease.lost
    assert not heartbeat.trouble
    assert ["cannot be renewed" in record.message for record in caplog.records] == [True]


def test_an_answer_that_was_lost(heartbeat, lease, table, boot):
    """The beat is repeated."""
    table.lose_answer = True
    boot.pass_seconds(TAKEOVER_S / BEATS)
    heartbeat.step()
    heartbeat.step()
    assert not lease.lost
    assert heartbeat.beat_ns == boot()


def test_a_request_to_hand_over(heartbeat, table, asked):
    """It is seen by the next look."""
    heartbeat.step()
    assert asked == []
    table.write(handover=True)
    heartbeat.step()
    assert asked == [1]


def test_standbys_are_counted(heartbeat, table, boot):
    """Those that have looked lately."""
    table.open_row("other", "tcp://b:7411").look(register=True)
    heartbeat.step()
    assert heartbeat.standbys == ["tcp://b:7411"]
    boot.pass_seconds(COUNT_S * 2)
    heartbeat.step()
    assert heartbeat.standbys == []


def test_its_thread_ends_with_the_lease(heartbeat, row, lease, lost):
    """A fault of its own costs the lease: no thread would keep it."""
    row.close()  # the next look fails with an AssertionError
    heartbeat.start()
    assert lost.wait(HANG)
    heartbeat.stop()
    heartbeat.stop()
    assert "has failed" in lease.lost
