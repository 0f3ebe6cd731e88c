"""What a worker tells the handler of an attempt."""

import threading

import pytest

from purgatory.service.worker.attempt import Attempt
from purgatory.service.worker.handlers import Job


@pytest.mark.parametrize("asks_first", [False, True])
def test_the_event_of_a_cancelled_job(asks_first):
    """It is set, whether the handler has asked for it before or asks later; it is one event."""
    attempt = Attempt()
    if asks_first:
        assert not attempt.cancelled.is_set()
    attempt.cancel()
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
        job.extend("soon")
