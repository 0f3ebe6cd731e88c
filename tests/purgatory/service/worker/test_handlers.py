"""Handlers: how often, and after which delays, a job is tried again."""

from purgatory.service.worker.handlers import Retry


def test_delays():
    """They double, up to the longest; a part of up to a half is left out."""
    retry = Retry(100, 1.0, 100.0)
    for attempt, longest in [(1, 1), (2, 2), (5, 16), (8, 100), (10_000, 100)]:
        delays = [retry.seconds_after(attempt) for _ in range(100)]
        assert longest / 2 <= min(delays) < max(delays) <= longest
