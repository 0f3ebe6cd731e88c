"""StoreLease: until when it is valid, and what the service time is."""

import pytest

from purgatory.service.cluster.store_lease import MARGIN, StoreLease
from purgatory.service.store.lease import ClockReading, SeenLease

TAKEOVER_S = 5.0
VALID_S = TAKEOVER_S * (1 - MARGIN)
TAKEN = SeenLease(7, 1, 0, "me", "tcp://a:7411", 50_000, drift_ms=-20_000)


@pytest.fixture
def lost():
    """One item for each call of `on_lost`."""
    return []


@pytest.fixture
def lease(boot, lost):
    """A lease that was taken just now."""
    return StoreLease(
        TAKEN, TAKEOVER_S, sent_ns=boot(), boot_ns=boot, on_lost=lambda: lost.append(1)
    )


def test_it_ends_before_a_standby_takes_over(lease, boot):
    """Without a renewal; the time of a stopped process or machine counts."""
    boot.pass_seconds(VALID_S - 0.001)
    assert lease.is_valid()
    assert lease.overdue_s() == 0
    boot.pass_seconds(0.001)
    assert not lease.is_valid()
    boot.pass_seconds(3)
    assert lease.overdue_s() == pytest.approx(3)


def test_it_counts_from_the_sending(lease, boot):
    """An answer that was long under way renews it by less, or not at all."""
    sent_ns = boot()
    boot.pass_seconds(VALID_S + 1)
    lease.renewed(sent_ns)
    assert not lease.is_valid()
    sent_ns = boot()
    boot.pass_seconds(1)
    lease.renewed(sent_ns)
    boot.pass_seconds(VALID_S - 1.001)
    assert lease.is_valid()
    boot.pass_seconds(0.001)
    assert not lease.is_valid()


def test_answers_may_come_in_any_order(lease, boot):
    """An older renewal does not shorten a newer one."""
    old_ns = boot()
    boot.pass_seconds(2)
    lease.renewed(boot())
    lease.renewed(old_ns)
    boot.pass_seconds(VALID_S - 0.001)
    assert lease.is_valid()


def test_a_lost_lease_stays_lost(lease, boot, lost):
    """Also if an answer comes afterwards; the loss is told once, with its first reason."""
    lease.lose("another")
    lease.lose("again")
    lease.renewed(boot())
    assert not lease.is_valid()
    assert (lease.lost, lost) == ("another", [1])


def test_the_service_time_goes_on_with_the_boot_clock(lease, boot):
    """It begins where the database has it."""
    assert lease.now_ms() == 50_000
    boot.pass_seconds(2.5)
    assert lease.now_ms() == 52_500
    assert boot() + lease.clock_offset_ns == 52_500_000_000


def test_a_reading_has_the_time_of_the_database(lease, boot):
    """A millisecond late at most: both clocks are cut off."""
    assert lease.read_clock() == ClockReading(50_000, 70_001)
    boot.pass_seconds(2.5)
    assert lease.read_clock() == ClockReading(52_500, 72_501)


def test_a_slow_answer_to_the_takeover_is_not_made_up_for(boot):
    """The service time stood still meanwhile: the next holder goes on from there."""
    sent_ns = boot()
    boot.pass_seconds(0.5)
    lease = StoreLease(TAKEN, TAKEOVER_S, sent_ns=sent_ns, boot_ns=boot)
    assert lease.read_clock() == ClockReading(50_000, 70_501)


def test_the_clock_of_the_database_may_be_set(lease, boot):
    """Each answer says where it is, counted from the moment at which it was asked for."""
    boot.pass_seconds(2.5)
    sent_ms = lease.now_ms()
    boot.pass_seconds(0.5)
    lease.saw(TAKEN._replace(clock_ms=52_600, drift_ms=3_000), sent_ms)
    assert lease.read_clock() == ClockReading(53_000, 49_601 + 500)


def ask(lease, boot, database_ahead_ms, there_s, back_s):
    """Have the lease see an answer whose two ways took so long."""
    sent_ms = lease.now_ms()
    boot.pass_seconds(there_s)
    now_ms = lease.now_ms()
    boot.pass_seconds(back_s)
    lease.saw(TAKEN._replace(clock_ms=now_ms, drift_ms=-database_ahead_ms), sent_ms)


@pytest.mark.parametrize(("there_s", "back_s"), [(0.9, 0.0), (0.0, 0.9), (0.5, 0.5)])
def test_a_slow_answer_takes_nothing_from_what_is_known(lease, boot, there_s, back_s):
    """Else the clock of the next holder would go back by as much."""
    ask(lease, boot, 20_000, 0.001, 0.001)
    now_ms = lease.now_ms()
    ask(lease, boot, 20_000, there_s, back_s)
    reading = lease.read_clock()
    assert reading.clock_ms == now_ms + 1000 * (there_s + back_s)
    assert 20_000 <= reading.database_ms - reading.clock_ms <= 20_002


@pytest.mark.parametrize("by_ms", [-3_600_000, -5000, -3, 4, 5000, 3_600_000])
def test_a_clock_of_the_database_that_was_set(lease, boot, by_ms):
    """Another host of the database may be the primary since; either way is noticed at once."""
    ask(lease, boot, 20_000, 0.001, 0.001)
    ask(lease, boot, 20_000 + by_ms, 0.001, 0.001)
    reading = lease.read_clock()
    assert 20_000 <= reading.database_ms - reading.clock_ms - by_ms <= 20_002


def test_the_own_epoch_is_raised_and_never_goes_back(lease):
    """By commits in doubt; the answers of two may come in any order."""
    lease.raised(9)
    lease.raised(8)
    assert lease.epoch == 9
