"""Time zones of the system or of the package `tzdata`. Pure; any thread."""

import zoneinfo
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

SECOND: Final = timedelta(seconds=1)
# No zone has changed its offset twice in so short a time: the shortest was a week.
_STEP: Final = timedelta(days=3)


def zone(name: str) -> ZoneInfo:
    """Return a zone by name. Raises ValueError for an unknown one, TypeError."""
    if not isinstance(name, str):
        raise TypeError(f"tz is {name!r}; expected the name of a time zone, as Europe/Berlin")
    try:
        return ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"tz is {name!r}; expected the name of a time zone, as UTC or Europe/Berlin"
        ) from error


def wall_time(instant: datetime, tz: ZoneInfo) -> datetime:
    """Return the time on a zone's clock at an instant."""
    return instant.astimezone(tz).replace(tzinfo=None)


def offset_at(instant: datetime, tz: ZoneInfo) -> timedelta:
    """Return a zone's offset from UTC at an instant."""
    offset = instant.astimezone(tz).utcoffset()
    assert offset is not None
    return offset


def first_instant(wall: datetime, tz: ZoneInfo) -> datetime:
    """Return the instant, in UTC, when a zone's clock first shows a time.

    For a skipped time, the first instant after the gap.
    """
    earlier = wall.replace(tzinfo=tz, fold=0).astimezone(UTC)
    if wall_time(earlier, tz) == wall:
        return earlier
    # In a gap, fold 1 has the offset of its end, so that instant is earlier.
    before = wall.replace(tzinfo=tz, fold=1).astimezone(UTC)
    return _first_change(before, earlier, tz)


def next_change(start: datetime, end: datetime, tz: ZoneInfo) -> datetime | None:
    """Return the first instant above `start`, up to `end`, with another offset than at `start`.

    To the second; None if the offset stays.
    """
    before = offset_at(start, tz)
    while start < end:
        step = min(end, start + _STEP)
        if offset_at(step, tz) != before:
            return _first_change(start, step, tz)
        start = step
    return None


def _first_change(start: datetime, end: datetime, tz: ZoneInfo) -> datetime:
    before = offset_at(start, tz)
    low, high = 0, -((start - end) // SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(start + middle * SECOND, tz) == before:
            low = middle
        else:
            high = middle
    return start + high * SECOND
