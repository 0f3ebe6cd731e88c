"""`next_times`: the next times of a cron expression, without a server. Pure; any thread."""

from datetime import UTC, datetime

from purgatory.cron.expression import CronExpression


def next_times(
    cron: str, tz: str = "UTC", count: int = 10, after: datetime | None = None
) -> list[datetime]:
    """Return the next times of a cron expression, aware datetimes of its zone.

    `cron`: minute, hour, day, month and weekday, as in `30 2 * * MON-FRI`, or `@hourly`, `@daily`,
    `@weekly`, `@monthly`, `@yearly`. `tz`: a time zone, as `Europe/Berlin`. `count`: fewer if the
    calendar ends before. `after`: an aware datetime, by default now.

    Raises ValueError for a bad expression, one that never runs, an unknown zone, a negative count,
    or an `after` that is not aware or not in the years 1 to 9999 of UTC, and TypeError for a value
    of another type.
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
    try:
        return after.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"after is {after!r}; expected a year of 1 to 9999 in UTC") from error
