"""CronExpression: the instants at which a cron expression runs in a time zone.

cronsim reads the expression, and finds the times on a clock with a constant offset. In zones:

- A pattern for certain hours follows the zone's clock. A skipped time runs once, at the first
  instant after the gap. A repeated time runs at the first.
- A pattern for each hour goes by real time: whenever the clock shows a matching time.

Debian's cron, which cronsim follows, differs: there `0 */2 * * *` goes by real time, and may be
skipped. Pure; any thread.
"""

import re
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from purgatory.cron.zones import SECOND, first_instant, next_change, offset_at, wall_time, zone

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
# A range of one value with a step; cronsim goes on to the field's end, as for `5/2`.
_RANGE_OF_ONE: Final = re.compile(r"(?<![^\s,])(\w+)-\1/[1-9][0-9]*(?=[\s,]|$)")
_FIELDS: Final = 5
_MOST_CHARACTERS: Final = 1000
_HOURS: Final = 24
# Start of a search: each kind of year follows within fifty years.
_SOME_TIME: Final = datetime(2000, 1, 1)  # noqa: DTZ001  # on a clock without a zone


class CronExpression:
    """A cron expression of five fields in the zone named `tz`.

    Raises ValueError for a malformed expression, one that never runs, and an unknown zone.
    """

    def __init__(self, text: str, tz: str = "UTC") -> None:
        if not isinstance(text, str):
            raise TypeError(f"cron is {text!r}; expected a text, as '30 2 * * *'")
        self.text: str = text
        self.tz: ZoneInfo = zone(tz)
        self._fields: str = _RANGE_OF_ONE.sub(r"\1", _SHORT.get(text.strip().lower(), text))
        if len(text) > _MOST_CHARACTERS or len(self._fields.split()) != _FIELDS:
            raise ValueError(f"cron is {text[:_MOST_CHARACTERS]!r}; {EXPECTED}")
        try:
            hours = CronSim(self._fields, _SOME_TIME).hours
        except CronSimError as error:
            raise ValueError(f"cron is {text!r}: {str(error).lower()}; {EXPECTED}") from error
        #: Whether it runs in each hour, by real time.
        self.is_hourly: bool = len(hours) == _HOURS
        if self._next_wall_time(_SOME_TIME) is None:
            raise ValueError(f"cron is {text!r}: there is no such day; {EXPECTED}")

    def __repr__(self) -> str:
        return f"CronExpression({self.text!r}, {self.tz.key!r})"

    def next_after(self, after: datetime) -> datetime | None:
        """Return the first run after an aware datetime, in UTC.

        None if there is none within fifty years, or before the year 10000.
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
            wall = self._next_wall_time(wall)  # an earlier showing, or a gap that is over
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
        return next(CronSim(self._fields, wall), None)
