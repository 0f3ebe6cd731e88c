"""CronExpression: the instants at which a cron expression runs in a time zone.

cronsim reads the expression and finds the times on a clock that never changes its offset. The rule
for zones that do is here:

- A pattern that runs at certain hours follows the zone's clock. A time that the clock skips runs
  once, at the first instant after the gap. A time that comes twice runs at the first.
- A pattern that runs in each hour goes by real time: whenever the clock shows a matching time.

Debian's cron, which cronsim follows, draws the line otherwise: there `0 */2 * * *` goes by real
time, and may be skipped. Zones are of the system or of the package `tzdata`. Pure; any thread.
"""

import zoneinfo
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

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


EXPECTED: Final = (
    "expected minute, hour, day, month and weekday, as in '30 2 * * *', or @daily and the like"
)
_SHORT: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS: Final = 5
_MOST_CHARACTERS: Final = 1000
_HOURS: Final = 24
# Any time will do to find a pattern that has none: a year of each kind follows within fifty years.
_SOME_TIME: Final = datetime(2000, 1, 1)  # noqa: DTZ001  # on a clock without a zone


class CronExpression:
    """A cron expression of five fields in the zone named `tz`.

    Raises ValueError for a malformed expression, for an expression that never runs, and for an
    unknown zone.
    """

    def __init__(self, text: str, tz: str = "UTC") -> None:
        if not isinstance(text, str):
            raise TypeError(f"cron is {text!r}; expected a text, as '30 2 * * *'")
        self.text: str = text
        self.tz: ZoneInfo = zone(tz)
        self._fields: str = _SHORT.get(text.strip().lower(), text)
        if len(text) > _MOST_CHARACTERS or len(self._fields.split()) != _FIELDS:
            raise ValueError(f"cron is {text[:_MOST_CHARACTERS]!r}; {EXPECTED}")
        try:
            hours = CronSim(self._fields, _SOME_TIME).hours
        except CronSimError as error:
            raise ValueError(f"cron is {text!r}: {str(error).lower()}; {EXPECTED}") from error
        #: Whether it runs in each hour, and so by real time.
        self.is_hourly: bool = len(hours) == _HOURS
        if self._next_wall_time(_SOME_TIME) is None:
            raise ValueError(f"cron is {text!r}: there is no such day; {EXPECTED}")

    def __repr__(self) -> str:
        return f"CronExpression({self.text!r}, {self.tz.key!r})"

    def next_after(self, after: datetime) -> datetime | None:
        """Return the first instant after an aware datetime at which it runs, in UTC.

        None if none exists in the next fifty years, or before the year 10000.
        """
        after = after.astimezone(UTC)
        try:
            return self._by_real_time(after) if self.is_hourly else self._by_the_clock(after)
        except (OverflowError, ValueError):  # the year 10000
            return None

    def _by_the_clock(self, after: datetime) -> datetime | None:
        wall = self._next_wall_time(wall_time(after, self.tz))
        while wall is not None:
            instant = first_instant(wall, self.tz)
            if instant > after:
                return instant
            wall = self._next_wall_time(wall)  # was shown before, or is in a gap that is over
        return None

    def _by_real_time(self, after: datetime) -> datetime | None:
        after = after.replace(microsecond=0)
        while True:
            start = after + SECOND
            offset = offset_at(start, self.tz)
            wall = self._next_wall_time((after + offset).replace(tzinfo=None))
            if wall is None:
                return None
            instant = wall.replace(tzinfo=UTC) - offset
            change = next_change(start, instant, self.tz)
            if change is None:
                return instant
            after = change - SECOND

    def _next_wall_time(self, wall: datetime) -> datetime | None:
        """Return the next time on a clock with a constant offset."""
        return next(CronSim(self._fields, wall), None)


def next_times(
    cron: str, tz: str = "UTC", count: int = 10, after: datetime | None = None
) -> list[datetime]:
    """Return the next times of a cron expression, aware datetimes of its zone.

    `cron` has minute, hour, day, month and weekday, as in `30 2 * * MON-FRI`, or is `@hourly`,
    `@daily`, `@weekly`, `@monthly` or `@yearly`; `tz` is the name of a time zone, as
    `Europe/Berlin`. There are `count` times, fewer if the calendar ends before. The times are later
    than `after`, an aware datetime, by default now.

    Raises ValueError for a bad expression, one that never runs, an unknown zone, a negative count,
    or an `after` that is not aware, and TypeError for a value of another type.
    """
    expression = CronExpression(cron, tz)
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"count is {count!r}; expected a whole number")
    if count < 0:
        raise ValueError(f"count is {count}; expected 0 or more")
    times: list[datetime] = []
    last = datetime.now(UTC) if after is None else _checked(after)
    while len(times) < count and (found := expression.next_after(last)) is not None:
        times.append(found.astimezone(expression.tz))
        last = found
    return times


def _checked(after: datetime) -> datetime:
    if not isinstance(after, datetime):
        raise TypeError(f"after is {after!r}; expected an aware datetime")
    if after.utcoffset() is None:
        raise ValueError(f"after is {after!r}; expected an aware datetime: with a tzinfo")
    return after
