"""ServiceClock: Unix time that does not jump when the wall clock is set."""

import time

import pytest

from purgatory.service.server.clock import (
    JUMP_MS,
    TICK_NS,
    ServiceClock,
    Stamp,
    TransactionClock,
    boot_id,
)
from tests.testing.step_server import START_MS, ManualTime


def test_it_is_unix_time():
    """At the start it agrees with the wall clock, to some seconds."""
    assert abs(ServiceClock({}).now_ms() - time.time() * 1000) < 5000
    assert boot_id() == boot_id()


def test_the_wall_clock_is_not_followed():
    """Setting the wall clock does not change a running clock."""
    moved = ManualTime()
    clock = ServiceClock({}, moved.sources())
    moved.wall_ms = 10**7
    moved.ms += 5
    assert clock.now_ms() == START_MS + 5
    assert clock.metadata()["drift_ms"] == 10**7
    assert clock.seconds_until((START_MS + 1005) * 1_000_000) == 1
    assert clock.seconds_until(START_MS) == 0


def test_small_differences_are_no_jumps():
    """The next run continues exactly where the last one was."""
    moved = ManualTime()
    metadata = ServiceClock({}, moved.sources()).metadata()
    moved.wall_ms = 999
    clock = ServiceClock(metadata, moved.sources())
    assert (clock.shift_ms, clock.now_ms()) == (0, START_MS)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_smallest_jump(sign):
    """On this machine, or as it was noted before a boot."""
    for size, shift in ((JUMP_MS - 1, 0), (JUMP_MS, sign * JUMP_MS)):
        moved = ManualTime()
        metadata = ServiceClock({}, moved.sources()).metadata()
        noted = metadata | {"boot_id": "another", "drift_ms": sign * size}
        assert ServiceClock(noted, moved.sources()).shift_ms == shift
        moved.wall_ms = sign * size
        assert ServiceClock(metadata, moved.sources()).shift_ms == shift


def test_a_jump_between_two_runs():
    """The clock says by how much, and follows the wall clock again."""
    moved = ManualTime()
    metadata = ServiceClock({}, moved.sources()).metadata()
    moved.wall_ms = -5000
    clock = ServiceClock(metadata, moved.sources())
    assert (clock.shift_ms, clock.now_ms()) == (-5000, START_MS - 5000)


def test_after_a_boot_only_what_was_noted_is_known():
    """The time since boot has begun again, so only the recorded drift counts."""
    moved = ManualTime()
    clock = ServiceClock({}, moved.sources())
    moved.wall_ms = 5000
    metadata = clock.metadata()
    moved.boot = "boot 2"
    moved.wall_ms = 6000
    assert ServiceClock(metadata, moved.sources()).shift_ms == 5000
    assert ServiceClock(metadata | {"drift_ms": 10}, moved.sources()).shift_ms == 0


def test_a_system_without_a_name_for_its_boot():
    """Without an id of the boot, each start counts as one after a boot."""
    moved = ManualTime()
    moved.boot = ""
    metadata = ServiceClock({}, moved.sources()).metadata()
    moved.wall_ms = 5000
    assert ServiceClock(metadata, moved.sources()).shift_ms == 0


def test_a_store_that_has_the_clock():
    """Neither the wall clock nor what another machine has noted decides; nothing is moved."""
    moved = ManualTime()
    metadata = ServiceClock({}, moved.sources()).metadata()
    moved.wall_ms = 600_000
    boot_ns = moved.sources().boot_ns()
    clock = ServiceClock(metadata, moved.sources(), offset_ns=5_000_000 - boot_ns)
    assert (clock.shift_ms, clock.now_ms()) == (0, 5)
    moved.ms += 7
    assert clock.now_ms() == 12


@pytest.mark.parametrize(("clock_ms", "forgets"), [(4, False), (5, False), (6, True)])
def test_what_is_of_one_stamp_alone(clock_ms, forgets):
    """A later stamp has no events yet, and is closed for no key; it never goes back."""
    stamp = Stamp(5)
    stamp.add_event("completed", failed=False)
    stamp.add_event("failed", failed=True)
    stamp.close(["closed"])
    stamp.follow(clock_ms)
    assert stamp.now_ms == max(5, clock_ms)
    assert stamp.keys == (set() if forgets else {"completed", "failed"})
    assert stamp.failed_keys == (set() if forgets else {"failed"})
    for key, later in (("open", 0), ("closed", not forgets), ("closed", 0)):
        before = stamp.now_ms
        stamp.open_for(key)
        assert stamp.now_ms - before == later


@pytest.mark.parametrize("past_ns", [0, 1, TICK_NS - 1])
def test_the_timer_reads_whole_ticks(past_ns):
    """Of the latest time that was followed, in nanoseconds and in milliseconds."""
    clock = TransactionClock(START_MS)
    assert (clock.now_ns(), clock()) == (START_MS * 1_000_000, START_MS)
    clock.follow((START_MS + 7) * 1_000_000 + TICK_NS + past_ns)
    assert clock.now_ns() == (START_MS + 7) * 1_000_000 + TICK_NS
    assert clock() == START_MS + 7
