"""Named leases: one program at a time, in order, with tokens that grow."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from purgatory.service.errors import TooManyLeases
from purgatory.service.job_messages import TakeLease
from purgatory.service.server.named_leases import named_leases
from purgatory.service.server.named_leases.named_lease import ABSENCE_MS
from purgatory.service.server.named_leases.named_leases import TAKE_UP_MS, NamedLeases
from purgatory.service.store.changes import Changes

KEEP_MS = 1000
WAIT_MS = 60_000


class Bench:
    """Named leases with a clock, whose transactions are published or rolled back at once."""

    def __init__(self, epoch=1):
        self.leases = NamedLeases(epoch)
        self.now_ms = 1_000_000
        self.rows = {}

    def commit(self):
        """Publish; returns the holders that are told."""
        changes = Changes()
        told = [(route, notice.holder) for route, notice in self.leases.prepare(changes)]
        rows = changes.named_leases
        for start in range(0, len(rows), 4):
            self.rows[rows[start]] = tuple(rows[start : start + 4])
        for name in changes.delete_named_leases:
            del self.rows[name]
        self.leases.publish()
        self.leases._check()
        return told

    def take(self, holder, name="n", wait_ms=WAIT_MS, route=b"r"):
        request = TakeLease(1, name, holder, KEEP_MS, wait_ms)
        token = self.leases.take(request, route, self.now_ms)
        return token, self.commit()

    def keep(self, holder, name="n"):
        kept = self.leases.keep(name, holder, KEEP_MS, self.now_ms)
        self.commit()
        return kept

    def end(self, holder, name="n"):
        ended = self.leases.end(name, holder, self.now_ms)
        return ended, self.commit()

    def pass_time(self, ms, grace_ms=0):
        self.now_ms += ms
        self.leases.expire(self.now_ms, grace_ms)
        return self.commit()

    def holder(self, name="n"):
        lease = self.leases.by_name.get(name)
        return lease.held.holder if lease is not None and lease.held is not None else None


@pytest.fixture
def bench():
    return Bench()


def test_one_has_it(bench):
    """Until it ends the lease; another one that does not wait is told nothing."""
    token, told = bench.take("a")
    assert token > 0
    assert told == []
    assert bench.take("b", wait_ms=0) == (None, [])
    assert bench.end("b") == (False, [])
    assert bench.holder() == "a"
    assert bench.end("a") == (True, [])
    assert bench.leases.by_name == {}
    assert bench.rows == {}
    assert bench.take("b")[0] > token
    assert bench.leases.bytes > 0


def test_waiters_in_order(bench):
    """Each is told in its turn; one that asks again keeps its place, one that leaves is out."""
    tokens = [bench.take("a")[0]]
    for holder in "bcde":
        assert bench.take(holder) == (None, [])
    assert bench.take("b", route=b"new") == (None, [])
    bench.end("d")
    bench.take("e", wait_ms=0)
    for holder, after, route in [("a", "b", b"new"), ("b", "c", b"r")]:
        assert bench.end(holder) == (True, [(route, after)])
        token, _ = bench.take(after)
        tokens.append(token)
    assert bench.end("c") == (True, [])
    assert tokens == sorted(set(tokens))


def test_a_lease_ends_by_time(bench):
    """Not before its time, nor while it is kept; then the next has it."""
    bench.take("a")
    bench.take("b")
    bench.pass_time(KEEP_MS - 1)
    assert bench.keep("a")
    assert bench.pass_time(KEEP_MS - 1) == []
    assert bench.pass_time(1) == [(b"r", "b")]
    assert not bench.keep("a")
    assert bench.holder() == "b"
    bench.pass_time(TAKE_UP_MS - 1)
    token, _ = bench.take("b")
    assert token is not None
    bench.pass_time(KEEP_MS)
    assert bench.leases.by_name == {}
    assert bench.leases.bytes == 0


def test_who_does_not_take_it_up(bench):
    """A program that was told and does not ask has it for a while only."""
    for holder in "abc":
        bench.take(holder)
    bench.end("a")
    assert bench.pass_time(TAKE_UP_MS - 1) == []
    assert bench.pass_time(1) == [(b"r", "c")]


def test_requests_wait_at_the_server(bench):
    """A lease lasts longer by the grace: one of them may keep it."""
    bench.take("a")
    assert bench.pass_time(KEEP_MS, grace_ms=500) == []
    assert bench.keep("a")
    bench.pass_time(KEEP_MS, grace_ms=500)
    assert bench.holder() == "a"
    bench.pass_time(500)
    assert bench.holder() is None


def test_a_wait_ends_by_time(bench):
    """The waiter is out without a word."""
    bench.take("a")
    bench.take("b", wait_ms=500)
    bench.take("c")
    bench.pass_time(500)
    assert bench.end("a") == (True, [(b"r", "c")])


def test_an_absent_waiter(bench):
    """It keeps its place while its connection is gone, for a while; others are not kept up."""
    bench.take("a")
    bench.take("b", route=b"1")
    bench.take("c", route=b"2")
    bench.leases.disconnect(b"1", bench.now_ms)
    bench.leases.disconnect(b"3", bench.now_ms)
    assert bench.end("a") == (True, [(b"2", "c")])
    assert bench.take("b", route=b"4") == (None, [])
    bench.take("d")
    assert bench.end("c") == (True, [(b"4", "b")])
    bench.take("b")
    bench.leases.disconnect(b"r", bench.now_ms)
    for _ in range(2 * ABSENCE_MS // KEEP_MS):
        bench.keep("b")
        bench.pass_time(KEEP_MS - 1)
    assert bench.end("b") == (True, [])
    assert bench.leases.by_name == {}


def test_a_free_lease_with_absent_waiters(bench):
    """Whoever asks has it."""
    bench.take("a")
    bench.take("b", route=b"1")
    bench.leases.disconnect(b"1", bench.now_ms)
    assert bench.end("a") == (True, [])
    assert bench.take("c")[0] is not None
    assert bench.take("b") == (None, [])
    assert bench.end("c") == (True, [(b"r", "b")])


def test_after_a_restart(bench):
    """What is on disk goes on; tokens are above all from before."""
    token, _ = bench.take("a")
    other, _ = bench.take("b", "other")
    bench.take("c")
    again = Bench(epoch=2)
    again.rows = dict(bench.rows)
    again.leases.load(list(bench.rows.values()))
    assert again.take("a")[0] == token
    assert again.take("c") == (None, [])
    again.pass_time(KEEP_MS - 1)
    assert again.holder("other") == "b"
    again.pass_time(1)
    assert again.holder("other") is None
    assert again.take("d", "other")[0] > max(token, other)


@pytest.mark.parametrize("what", ["take", "wait", "keep", "end", "expire", "new"])
def test_a_commit_that_fails(bench, what):
    """Everything is as before."""
    token, _ = bench.take("a")
    bench.take("b")
    leases, now_ms = bench.leases, bench.now_ms + 10
    before = leases.bytes, leases.by_name["n"].held, dict(leases.by_name["n"].waiters)
    if what == "take":
        leases.take(TakeLease(1, "n", "a", KEEP_MS, WAIT_MS), b"r", now_ms)
    elif what == "wait":
        leases.take(TakeLease(1, "n", "c", KEEP_MS, WAIT_MS), b"r", now_ms)
    elif what == "keep":
        leases.keep("n", "a", KEEP_MS, now_ms)
    elif what == "end":
        leases.end("n", "a", now_ms)
    elif what == "expire":
        leases.expire(now_ms + 2 * WAIT_MS)
    else:
        leases.take(TakeLease(1, "new", "c", KEEP_MS, WAIT_MS), b"r", now_ms)
    assert leases.before
    leases.prepare(Changes())
    leases.roll_back()
    leases._check()
    assert not leases.before
    assert list(leases.by_name) == ["n"]
    assert (leases.bytes, leases.by_name["n"].held, leases.by_name["n"].waiters) == before
    assert bench.take("a")[0] == token
    assert bench.end("a") == (True, [(b"r", "b")])


def test_a_connection_ends_before_a_commit_fails(bench):
    """Its waiter is absent after the roll-back, though it had got the lease."""
    bench.take("a")
    bench.take("b", route=b"1")
    bench.take("c", route=b"2")
    bench.leases.end("n", "a", bench.now_ms)
    bench.leases.disconnect(b"1", bench.now_ms)
    bench.leases.prepare(Changes())
    bench.leases.roll_back()
    bench.leases._check()
    assert bench.end("a") == (True, [(b"2", "c")])
    assert bench.take("b", route=b"3") == (None, [])
    bench.take("c")
    assert bench.end("c") == (True, [(b"3", "b")])


def test_bounds(bench, monkeypatch):
    """So many names, and so many waiters; nothing changes for those that are there."""
    monkeypatch.setattr(named_leases, "MAX_LEASES", 2)
    monkeypatch.setattr(named_leases, "MAX_WAITERS", 1)
    bench.take("a", "1")
    bench.take("a", "2")
    with pytest.raises(TooManyLeases, match="2 names"):
        bench.take("a", "3")
    bench.take("b", "1")
    with pytest.raises(TooManyLeases, match="1 programs wait"):
        bench.take("c", "1")
    bench.leases.roll_back()
    bench.leases._check()
    assert bench.take("b", "1") == (None, [])
    assert bench.end("a", "1") == (True, [(b"r", "b")])


def test_stale_times_go(bench):
    """A name that is taken and ended again and again leaves nothing behind."""
    for _ in range(5000):
        bench.take("a")
        bench.now_ms += 1
        bench.end("a")
    assert len(bench.leases.times) < 2000


class LeaseModel(RuleBasedStateMachine):
    """Against a naive model: one holder a name, and its waiters in a list."""

    names = st.sampled_from("mn")
    holders = st.sampled_from("abcd")

    def __init__(self):
        super().__init__()
        self.bench = Bench()
        self.held = {}  # name -> [holder, until_ms]
        self.waiting = {"m": [], "n": []}  # of [holder, until_ms]
        self.tokens = []

    @rule(name=names, holder=holders, waits=st.booleans())
    def take(self, name, holder, waits):
        now_ms = self.bench.now_ms
        token, _ = self.bench.take(holder, name, WAIT_MS if waits else 0)
        held = self.held.get(name)
        if held is None:
            self.held[name] = [holder, now_ms + KEEP_MS]
            self.tokens.append(token)
        elif held[0] == holder:
            assert token in self.tokens
            held[1] = now_ms + KEEP_MS
        else:
            assert token is None
            found = [one for one in self.waiting[name] if one[0] == holder]
            if not waits:
                self.waiting[name] = [one for one in self.waiting[name] if one[0] != holder]
            elif found:
                found[0][1] = now_ms + WAIT_MS
            else:
                self.waiting[name].append([holder, now_ms + WAIT_MS])

    @rule(name=names, holder=holders)
    def keep(self, name, holder):
        held = self.held.get(name)
        is_held = held is not None and held[0] == holder
        assert self.bench.keep(holder, name) == is_held
        if is_held:
            held[1] = self.bench.now_ms + KEEP_MS

    @rule(name=names, holder=holders)
    def end(self, name, holder):
        held = self.held.get(name)
        is_held = held is not None and held[0] == holder
        ended, told = self.bench.end(holder, name)
        assert ended == is_held
        self.waiting[name] = [one for one in self.waiting[name] if one[0] != holder]
        assert told == (self.pass_on(name) if is_held else [])

    def pass_on(self, name):
        del self.held[name]
        if not self.waiting[name]:
            return []
        holder, _ = self.waiting[name].pop(0)
        self.held[name] = [holder, self.bench.now_ms + TAKE_UP_MS]
        self.tokens.append(self.bench.leases.by_name[name].held.token)
        return [(b"r", holder)]

    @rule(ms=st.sampled_from([1, 400, KEEP_MS, TAKE_UP_MS, WAIT_MS]))
    def pass_time(self, ms):
        told = self.bench.pass_time(ms)
        expected = []
        for name in "mn":
            self.waiting[name] = [one for one in self.waiting[name] if one[1] > self.bench.now_ms]
            if name in self.held and self.held[name][1] <= self.bench.now_ms:
                expected += self.pass_on(name)
        assert sorted(told) == sorted(expected)

    @invariant()
    def same_holders(self):
        for name in "mn":
            held = self.held.get(name)
            assert self.bench.holder(name) == (None if held is None else held[0])
        rows = {row[0]: (row[1], row[3]) for row in self.bench.rows.values()}
        assert rows == {name: tuple(held) for name, held in self.held.items()}
        assert len(set(self.tokens)) == len(self.tokens)


TestLeaseModel = LeaseModel.TestCase
TestLeaseModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_when_the_first_lease_ends(bench):
    """The server wakes then; not at all without a lease."""
    assert bench.leases.next_wake_ms() is None
    first_ms = bench.now_ms + KEEP_MS
    bench.take("a", "one")
    assert bench.leases.next_wake_ms() == first_ms
    bench.pass_time(10)
    bench.take("b", "two")
    assert bench.leases.next_wake_ms() == first_ms
    bench.pass_time(KEEP_MS - 10)
    assert (bench.holder("one"), bench.holder("two")) == (None, "b")
    assert bench.leases.next_wake_ms() == first_ms + 10
