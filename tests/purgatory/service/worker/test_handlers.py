"""Handlers: how often, and after which delays, a job is tried again."""

from purgatory.service.worker.handlers import Retry, check_concurrency, check_retry
from tests.testing.odd_numbers import LyingInt


def test_delays():
    """They double, up to the longest; a part of up to a half is left out."""
    retry = Retry(100, 1.0, 100.0)
    for attempt, longest in [(1, 1), (2, 2), (5, 16), (8, 100), (10_000, 100)]:
        delays = [retry.seconds_after(attempt) for _ in range(100)]
        assert longest / 2 <= min(delays) < max(delays) <= longest


def test_an_int_of_any_class():
    """A subclass of int counts by its value, however it compares."""
    assert type(check_concurrency(LyingInt(8))) is int
    assert check_concurrency(LyingInt(8)) == 8
    assert type(check_retry(Retry(LyingInt(3), 1.0, 2.0)).max_attempts) is int
