"""The takeover: the epoch first, then the sessions of the old one."""

import pytest

from purgatory.errors import StoreError
from purgatory.service.cluster.takeover import RETURN_S, YIELD_S, LeaseWatch, take_over
from purgatory.service.store.lease import SeenLease

TAKEOVER_S = 5.0


@pytest.fixture
def take(table, boot):
    """Take over from the row as it is, or as it was `seen`."""

    def take(seen=None, stopped=lambda: False):
        row = table.open_row("me", "tcp://b:7411")
        return take_over(row, seen or table.seen(), TAKEOVER_S, stopped=stopped, boot_ns=boot)

    return take


def test_the_epoch_grows_and_the_clock_goes_on(take, table, boot):
    """The row has the new holder, and the lease the service time."""
    table.write(epoch=3, holder="old", clock_ms=77_000)
    boot.pass_seconds(60)
    lease = take()
    assert (table.row.epoch, table.row.holder, table.row.address) == (4, "me", "tcp://b:7411")
    assert (lease.epoch, lease.holder, lease.now_ms()) == (4, "me", 137_000)
    assert lease.is_valid()
    assert not table.commit(3)


def test_a_holder_that_lives_after_all(take, table):
    """What it writes between the last look and the takeover keeps its lease."""
    table.write(epoch=3, holder="old")
    seen = table.seen()
    assert table.commit(3)
    assert take(seen) is None
    assert (table.row.holder, table.row.epoch) == ("old", 3)


def test_two_standbys(take, table):
    """One of them is faster, and the other one stands by."""
    seen = table.seen()
    assert take(seen) is not None
    assert take(seen) is None
    assert table.row.epoch == 1


def test_a_group_that_was_half_sent_holds_the_row(take, table):
    """Its session is ended, and the epoch raised again; sessions that are left are ended too."""
    table.write(epoch=3, holder="old")
    table.locked_by = 3
    assert take().epoch == 4
    assert table.ended == [3, 3]


def test_a_stop_ends_the_attempts(take, table):
    """A row that stays locked does not keep the process from ending."""
    table.write(epoch=3, holder="old")
    table.locked_by = 99
    stops = iter([False, False, True])
    assert take(stopped=lambda: next(stops)) is None
    assert table.row.epoch == 3


def test_a_database_that_goes_away(take, table):
    """The caller gets the error, and tries again later."""
    table.write(epoch=3, holder="old")
    seen = table.seen()
    table.away = True
    with pytest.raises(StoreError, match="does not answer"):
        take(seen)


class SlowRow:
    """A row whose answer to a takeover comes after so many seconds."""

    def __init__(self, row, boot, seconds):
        self.row = row
        self.boot = boot
        self.seconds = seconds
        self.end_sessions_of = row.end_sessions_of

    def raise_epoch(self, seen):
        """Raise it, and let time pass."""
        taken = self.row.raise_epoch(seen)
        self.boot.pass_seconds(self.seconds)
        return taken


@pytest.fixture
def take_slowly(table, boot):
    """Take over from the row as it is; the answer takes so many seconds."""

    def take(seconds):
        row = SlowRow(table.open_row("me", "tcp://b:7411"), boot, seconds)
        return take_over(row, table.seen(), TAKEOVER_S, stopped=lambda: False, boot_ns=boot)

    return take


def test_the_lease_counts_from_the_sending(take_slowly, boot):
    """A takeover whose answer is late gives a short lease."""
    lease = take_slowly(4)
    assert lease.is_valid()
    boot.pass_seconds(1)
    assert not lease.is_valid()


def test_an_answer_that_comes_after_the_lease(take_slowly, table):
    """The next takeover has the right time; the server knows its own id in the row."""
    before_ms = table.seen().clock_ms
    assert take_slowly(3600) is None
    assert table.row.holder == "me"
    assert take_slowly(0).now_ms() == before_ms + 3_600_000


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
