"""Handlers: how often a job is tried again, and how many run."""

import threading
from datetime import timedelta

import pytest

from purgatory.service.worker.handlers import (
    Attempt,
    HandlerLimits,
    Job,
    Retry,
    check_concurrency,
    check_limits,
    check_retry,
)
from tests.testing.odd_numbers import LyingInt


def test_how_many_handlers():
    """1 to 1000 at a time."""
    assert [check_concurrency(count) for count in (1, 1000)] == [1, 1000]
    for count in (0, 1001):
        with pytest.raises(ValueError, match=f"concurrency is {count}; expected"):
            check_concurrency(count)


def test_an_int_of_any_class():
    """A subclass of int counts by its value, however it compares."""
    assert type(check_concurrency(LyingInt(8))) is int
    assert check_concurrency(LyingInt(8)) == 8
    assert type(check_retry(LyingInt(3), 1.0, 2.0).max_attempts) is int


def test_delays_of_a_retry():
    """Seconds, a timedelta or a text."""
    assert check_retry(3, "10s", "PT1M") == Retry(3, 10.0, 60.0)
    assert check_retry(3, timedelta(seconds=10), timedelta(minutes=1)) == Retry(3, 10.0, 60.0)
    assert check_retry(3, 0, 2) == Retry(3, 0.0, 2.0)


def test_how_many_attempts():
    """As many as the server takes."""
    assert [check_retry(count, 1, 2).max_attempts for count in (1, 2**31 - 1)] == [1, 2**31 - 1]
    for count in (0, 2**31):
        with pytest.raises(ValueError, match=f"max_attempts is {count}; expected"):
            check_retry(count, 1, 2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: check_limits(-1, None), ValueError, "timeout is -1; expected 0 or more"),
        (lambda: Job("a", "", None, 1, 1, 0, 0).extend(-1), ValueError, "seconds is -1; expected"),
        (lambda: check_retry(3, b"10s", 60), TypeError, "retry_delay is b'10s'; expected seconds"),
        (lambda: check_limits("soon", None), ValueError, "timeout: 'soon' is not a valid"),
        (lambda: check_retry(3, -1, 60), ValueError, "retry_delay is -1; expected 0 or more"),
        (lambda: check_retry(3, 1, None), TypeError, "max_retry_delay is None; expected seconds"),
        (lambda: check_retry(3, 5, 1), ValueError, "retry_delay is 5, max_retry_delay is 1;"),
    ],
)
def test_an_error_names_the_argument(call, error, words):
    """With its value, and what was expected."""
    with pytest.raises(error, match=f"^{words}"):
        call()


@pytest.mark.parametrize("asks_first", [False, True])
def test_the_event_of_a_cancelled_job(asks_first):
    """It is set, whether the handler has asked for it before or asks later; it is one event."""
    attempt = Attempt()
    before = attempt.cancelled if asks_first else threading.Event()
    assert not before.is_set()
    attempt.cancel()
    assert before.is_set() is asks_first
    assert attempt.cancelled.is_set()
    assert attempt.cancelled is attempt.cancelled


def test_threads_that_ask_at_once():
    """All get the same event."""
    attempt, found, start = Attempt(), [], threading.Barrier(8)

    def ask():
        start.wait()
        found.append(attempt.cancelled)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_a_job_without_a_worker():
    """A program's test can make one: it is not cancelled, and cannot be extended."""
    job = Job("a", "mail", None, 1, 5, 0, 0, ("customer:42",))
    assert not job.cancelled.is_set()
    assert not job.extend(5)
    assert job == Job("a", "mail", None, 1, 5, 0, 0, ("customer:42",))
    with pytest.raises(TypeError):
        job.extend(b"1m")


def test_the_least_of_limits():
    """A time limit of nothing is refused; the first delay may be the longest."""
    assert check_limits(0.001, 1) == HandlerLimits(0.001, 1)
    for timeout in (0, -1):
        with pytest.raises(ValueError, match="timeout is"):
            check_limits(timeout, None)
    with pytest.raises(ValueError, match="concurrency is 0"):
        check_limits(None, 0)
    assert check_retry(1, 5, 5) == Retry(1, 5.0, 5.0)
    with pytest.raises(ValueError, match="retry_delay is 5"):
        check_retry(1, 5, 4.999)
