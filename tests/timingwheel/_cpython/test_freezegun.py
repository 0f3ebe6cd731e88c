"""The default clock stands still while freezegun has frozen time."""

import freezegun

from timingwheel import monotonic_ms


def test_frozen_time_is_honoured():
    """The default clock stands still while frozen, and moves with the frozen time."""
    with freezegun.freeze_time("2026-01-01") as frozen:
        start = monotonic_ms()
        assert monotonic_ms() == start
        frozen.tick(1.5)
        assert monotonic_ms() == start + 1500
