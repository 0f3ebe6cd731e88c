"""backoff_s: the delay doubles up to the longest, and chance takes up to a half of it away."""

from purgatory.service.client.backoff import backoff_s


def test_it_doubles_up_to_the_longest():
    """The first attempt waits for `first`; so many that the power would overflow, for `longest`."""

    def most(low, high):
        return high

    delays = [backoff_s(attempt, 0.5, 3.0, most) for attempt in (1, 2, 3, 4, 10_000)]
    assert delays == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_chance_takes_up_to_a_half():
    """What failed together is not tried again together."""
    asked = []

    def least(low, high):
        asked.append((low, high))
        return low

    assert backoff_s(2, 1.0, 10.0, least) == 1.0
    assert asked == [(0.5, 1.0)]
    assert len({backoff_s(1, 1.0, 1.0) for _ in range(20)}) > 1
