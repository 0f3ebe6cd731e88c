"""LeaseBook: what is right passes, and what is wrong is reported."""

import pytest

from purgatory.service.client.leases.lease_calls import KeptLease
from purgatory.testing.world.world import NS_PER_S, World
from tests.simulation.steering.kind_rules import KindRules
from tests.simulation.steering.lease_book import LeaseBook, LeaseWish


class Bench:
    """A book, and a world in which nothing is wrong."""

    def __init__(self):
        self.world = World(1)
        self.reports = []
        rules = KindRules(self.world, self.reports.append)
        self.world.run(1.0)
        self.book = LeaseBook(self.world, self.reports.append, rules)

    def clock(self):
        return self.world.now_ns / NS_PER_S

    def wish(self, program):
        self.world.run(0.1)
        return LeaseWish(program, "printer", f"holder of {program}", 1000, self.world.now_ns)

    def queue(self, program):
        wish = self.wish(program)
        self.world.run(0.1)
        self.book.queue(wish)
        return wish

    def hold(self, wish, token):
        wish.token = token
        wish.kept = KeptLease(wish.name, wish.holder, 1000, self.clock(), list)
        self.book.hold(wish, self.clock)
        return wish


@pytest.fixture
def bench():
    return Bench()


def test_one_after_the_other(bench):
    """In order, after what was given back or has ended."""
    first = bench.hold(bench.wish("a"), 1)
    second, third = bench.queue("b"), bench.queue("c")
    bench.book.leave(first)
    bench.hold(second, 2)
    bench.book.kill("b")
    bench.hold(third, 3)
    bench.world.run(2.0)
    bench.hold(bench.wish("a"), 4)
    assert (bench.reports, bench.book.granted) == ([], 4)


def test_two_at_a_time(bench):
    """The first one's lease lasts."""
    bench.hold(bench.wish("a"), 1)
    bench.hold(bench.wish("b"), 2)
    assert "two programs have a lease" in bench.reports[0]


def test_a_token_twice(bench):
    """Tokens grow, also if nobody has the name any more."""
    bench.book.leave(bench.hold(bench.wish("a"), 2))
    bench.hold(bench.wish("b"), 2)
    assert "a token that has been there" in bench.reports[0]


def test_an_order_that_is_wrong(bench):
    """Who came later waits for who came before."""
    first = bench.hold(bench.wish("a"), 1)
    bench.queue("b")
    later = bench.queue("c")
    bench.book.leave(first)
    bench.hold(later, 2)
    assert "came before" in bench.reports[0]


def test_late_and_lost(bench):
    """If nothing is wrong, a free name is given soon, and no lease is lost."""
    first = bench.hold(bench.wish("a"), 1)
    waiting = bench.queue("b")
    bench.world.run(0.1)
    bench.book.leave(first)
    bench.world.run(6.0)
    bench.hold(waiting, 2)
    assert "was free since" in bench.reports[0]
    bench.book.leave(waiting, is_lost=True)
    assert "was lost" in bench.reports[1]
    bench.queue("a")
    bench.world.run(121.0)
    bench.book.check_patience()
    assert "waits since" in bench.reports[2]
