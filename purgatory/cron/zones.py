"""Time zones: when a zone's clock shows a time, and when the zone changes its offset from UTC.

Zones are of the system or of the package `tzdata`. Pure; any thread.
"""

import zoneinfo
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

SECOND: Final = timedelta(seconds=1)
# No zone has changed its offset twice in so short a time; the shortest was a week.
_STEP: Final = timedelta(days=3)


def zone(name: str) -> ZoneInfo:
    """Return a zone by name; raises ValueError if none exists."""
    if not isinstance(name, str):
        raise TypeError(f"tz is {name!r}; expected the name of a time zone, as Europe/Berlin")
    try:
        return ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"tz is {name!r}; expected the name of a time zone, as UTC or Europe/Berlin"
        ) from error


def wall_time(instant: datetime, tz: ZoneInfo) -> datetime:
    """Return what a zone's clock shows at an instant, without a zone."""
    return instant.astimezone(tz).replace(tzinfo=None)


def offset_at(instant: datetime, tz: ZoneInfo) -> timedelta:
    """Return how far a zone's clock is ahead of UTC at an instant."""
    offset = instant.astimezone(tz).utcoffset()
    assert offset is not None
    return offset


def first_instant(wall: datetime, tz: ZoneInfo) -> datetime:
    """Return the instant, in UTC, when a zone's clock first shows a time.

    If the clock skips the time, return the first instant after the gap.
    """
    earlier = wall.replace(tzinfo=tz, fold=0).astimezone(UTC)
    if wall_time(earlier, tz) == wall:
        return earlier
    # In a gap, fold 1 has the offset that begins at its end, so the instant is before that.
    before = wall.replace(tzinfo=tz, fold=1).astimezone(UTC)
    return _first_change(before, earlier, tz)


def next_change(start: datetime, end: datetime, tz: ZoneInfo) -> datetime | None:
    """Return the first instant above `start` and up to `end` with another offset than `start`.

    None if none exists. To the second.
    """
    before = offset_at(start, tz)
    while start < end:
        step = min(end, start + _STEP)
        if offset_at(step, tz) != before:
            return _first_change(start, step, tz)
        start = step
    return None


def _first_change(start: datetime, end: datetime, tz: ZoneInfo) -> datetime:
    """Return the only instant above `start`, up to `end`, at which the offset changes."""
    before = offset_at(start, tz)
    low, high = 0, -((start - end) // SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(start + middle * SECOND, tz) == before:
            low = middle
        else:
            high = middle
    return start + high * SECOND
