"""ArrivalLimit: how many connections are let in while the network thread cannot keep up."""

from purgatory.service.server.sockets.arrival_limit import (
    BEHIND_S,
    MAX_ARRIVALS,
    WINDOW_S,
    ArrivalLimit,
)


class Arrivals:
    """A limit that is asked once a step of a hundredth of a second."""

    def __init__(self):
        self.time = 0.0
        self.count = 0
        self.limit = ArrivalLimit(lambda: self.time)

    def come(self, count, *, behind=True, seconds=0.01):
        self.time += seconds
        self.count += count
        return self.limit.is_exceeded(self.count, behind=behind)


def test_any_number_may_come_while_the_thread_keeps_up():
    """As after a restart of the server, when all come again."""
    arrivals = Arrivals()
    assert not any(arrivals.come(1000, behind=False) for _ in range(100))


def test_few_may_come_while_it_is_behind():
    """Until it has caught up, or until the next window begins."""
    arrivals = Arrivals()
    assert not arrivals.come(MAX_ARRIVALS + 1, seconds=BEHIND_S / 2)
    assert arrivals.come(0, seconds=BEHIND_S)
    assert not arrivals.come(0, behind=False)
    assert not arrivals.come(1)
    assert arrivals.come(0, seconds=2 * BEHIND_S)
    assert not arrivals.come(0, seconds=WINDOW_S)
    assert not arrivals.come(MAX_ARRIVALS)
    assert arrivals.come(1)


def test_a_busy_server_lets_some_in():
    """However long it has been behind: as many in each window."""
    arrivals = Arrivals()
    assert not any(arrivals.come(MAX_ARRIVALS, seconds=WINDOW_S) for _ in range(100))
