"""LeaseWatch: when a standby may take over."""

import pytest

from purgatory.service.cluster.lease_watch import RETURN_S, YIELD_S, LeaseWatch
from purgatory.service.store.lease import SeenLease

TAKEOVER_S = 5.0
SEEN = SeenLease(3, 70, 9, "active", "tcp://a:7411", 1000)


@pytest.fixture
def watch(boot):
    """A standby that has not looked yet."""
    return LeaseWatch("me", TAKEOVER_S, boot_ns=boot)


def test_a_silent_holder(watch, boot):
    """After `takeover_after`, and not before."""
    assert not watch.saw(SEEN)
    boot.pass_seconds(TAKEOVER_S - 0.001)
    assert not watch.saw(SEEN)
    assert watch.silent_s() == pytest.approx(TAKEOVER_S - 0.001)
    boot.pass_seconds(0.001)
    assert watch.saw(SEEN)


@pytest.mark.parametrize("sign", [{"beat": 71}, {"commits": 10}, {"epoch": 4}, {"holder": "x"}])
def test_a_sign_of_life_begins_the_time_anew(watch, boot, sign):
    """A beat, a commit, an epoch that was raised, another holder."""
    watch.saw(SEEN)
    boot.pass_seconds(TAKEOVER_S - 0.001)
    alive = SEEN._replace(**sign)
    assert not watch.saw(alive)
    boot.pass_seconds(TAKEOVER_S - 0.001)
    assert not watch.saw(alive)
    boot.pass_seconds(0.001)
    assert watch.saw(alive)


def test_a_row_without_a_holder(watch):
    """A clean stop, or a new database: at once."""
    assert watch.saw(SEEN._replace(holder=""))


def test_a_standby_that_slept_knows_nothing(watch, boot):
    """After an hour asleep the holder is judged by what it does from then on."""
    watch.saw(SEEN)
    boot.pass_seconds(3600)
    assert not watch.saw(SEEN._replace(beat=5000))
    boot.pass_seconds(TAKEOVER_S - 0.001)
    assert not watch.saw(SEEN._replace(beat=5000))


def test_the_holder_may_come_back_after_the_database(watch, boot):
    """It has a moment for its first beat; if none comes, the standby takes over."""
    watch.saw(SEEN)
    watch.failed()
    boot.pass_seconds(60)
    watch.failed()
    assert not watch.saw(SEEN)
    boot.pass_seconds(RETURN_S - 0.001)
    assert not watch.saw(SEEN)
    boot.pass_seconds(0.001)
    assert watch.saw(SEEN)


def test_the_answer_to_the_takeover_was_lost(watch):
    """The row has this server's own id: it takes over again."""
    assert watch.saw(SEEN._replace(holder="me"))


def test_after_a_handover_others_come_first(boot):
    """The server that has handed over takes the lease again only if no other one does."""
    watch = LeaseWatch("me", TAKEOVER_S, handed_over=SEEN.epoch, boot_ns=boot)
    assert not watch.saw(SEEN._replace(holder=""))
    boot.pass_seconds(YIELD_S)
    assert watch.saw(SEEN._replace(holder=""))


@pytest.mark.parametrize("was_seen", [True, False])
def test_a_handover_back(boot, was_seen):
    """A server that has handed over takes the lease when the next one hands over, at once.

    Also if the next one came and went between two looks.
    """
    watch = LeaseWatch("me", TAKEOVER_S, handed_over=SEEN.epoch, boot_ns=boot)
    if was_seen:
        assert not watch.saw(SEEN._replace(epoch=SEEN.epoch + 1))
    assert watch.saw(SEEN._replace(holder="", epoch=SEEN.epoch + 1))
