"""WritePace: how long a journal's thread pauses while it writes."""

import pytest

from purgatory.journal.write_pace import WritePace


class Thread:
    """One that works, and notes its pauses; seconds."""

    def __init__(self):
        self.time = 100.0
        self.pauses = []
        self.pace = WritePace(now=lambda: self.time, sleep=self.sleep)

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.time += seconds

    def work(self, seconds):
        self.time += seconds
        self.pace.pause()


@pytest.fixture
def thread():
    return Thread()


def test_a_pause_is_longer_than_the_work(thread):
    """Three times as long, and what has passed before the write does not count."""
    thread.time += 1000
    thread.pace.begin()
    thread.work(0.002)
    thread.work(0.01)
    assert thread.pauses == pytest.approx([0.006, 0.03])


def test_all_pauses_of_a_write(thread):
    """They take a second, however much there is to write; the next write begins anew."""
    thread.pace.begin()
    for _ in range(100):
        thread.work(0.01)
    assert sum(thread.pauses) == pytest.approx(1.0)
    thread.pace.begin()
    thread.work(0.01)
    assert sum(thread.pauses) == pytest.approx(1.03)


def test_an_urgent_write(thread):
    """It makes none while another thread waits for it."""
    urgent = [True, False]
    thread.pace.is_urgent = lambda: urgent.pop(0)
    thread.pace.begin()
    thread.work(0.01)
    thread.work(0.02)
    assert thread.pauses == pytest.approx([0.06])
