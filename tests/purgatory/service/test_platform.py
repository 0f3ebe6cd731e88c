"""Platform: the doorbell of a client's I/O thread, and the clocks."""

import os

import pytest

from purgatory.service.platform import CAN_LEND, REAL_PLATFORM


@pytest.fixture
def pipe():
    """The two ends of a pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture
def doorbell(pipe):
    """A doorbell that has the end of the pipe that is read."""
    made = REAL_PLATFORM.doorbell()
    made.register(pipe[0])
    yield made
    made.close()


def test_a_readable_descriptor_ends_the_sleep(doorbell, pipe):
    """It is told to callers, too, until it is removed."""
    assert doorbell.ready() == []
    os.write(pipe[1], b"x")
    doorbell.sleep(None)
    assert doorbell.ready() == [pipe[0]]
    doorbell.unregister(pipe[0])
    assert doorbell.ready() == []


@pytest.mark.parametrize("seconds", [2**31 / 1000, 86_400 * 366, 1e10])
def test_a_sleep_of_months(doorbell, pipe, seconds):
    """A client whose timeout is longer than the system's longest sleep works as others do."""
    os.write(pipe[1], b"x")
    doorbell.sleep(seconds)
    assert doorbell.ready() == [pipe[0]]


@pytest.mark.skipif(not CAN_LEND, reason="nothing is lent on this system")
def test_what_is_lent_wakes_its_borrower_only(doorbell, pipe):
    """The I/O thread sleeps on, until the descriptors are taken back."""
    doorbell.lend()
    os.write(pipe[1], b"x")
    assert doorbell._bell.poll(0) == []
    assert doorbell.ready() == [pipe[0]]
    doorbell.take_back()
    doorbell.take_back()
    doorbell.sleep(None)


def test_clocks_never_go_back():
    """Time since boot includes that of the monotonic clock."""
    before = REAL_PLATFORM.boot_ns()
    assert REAL_PLATFORM.monotonic_ns() <= REAL_PLATFORM.boot_ns()
    assert before <= REAL_PLATFORM.boot_ns()
