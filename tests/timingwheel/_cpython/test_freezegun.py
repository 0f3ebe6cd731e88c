"""_freezegun: the default clock stands still while freezegun has frozen time; waits do not."""

import freezegun

from timingwheel import monotonic_ms
from timingwheel._cpython.freezegun import real_seconds


def test_frozen_time_is_honoured():
    """The default clock stands still while frozen, and moves with the frozen time."""
    with freezegun.freeze_time("2026-01-01") as frozen:
        start = monotonic_ms()
        assert monotonic_ms() == start
        frozen.tick(1.5)
        assert monotonic_ms() == start + 1500


def test_real_seconds_go_on():
    """real_seconds go on while time is frozen."""
    with freezegun.freeze_time("2026-01-01"):
        start = real_seconds()
        while real_seconds() == start:
            pass
    assert 0 < real_seconds() - start < 60
