"""`next_times` without a server."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest

import purgatory
from purgatory.cron.preview import next_times

BEFORE_A_GAP = datetime(2026, 3, 28, tzinfo=UTC)
TOKYO = timezone(timedelta(hours=9))


def test_times_are_of_the_zone():
    """Aware, with the zone's offset, and the end of a gap for a time that does not exist."""
    found = purgatory.next_times("30 2 * * *", "Europe/Berlin", count=3, after=BEFORE_A_GAP)
    assert [time.isoformat() for time in found] == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_the_second_of_two_times_shows_its_offset():
    """A quarter of an hour in a fold: the same time twice, an hour apart."""
    after = datetime(2026, 10, 25, 0, 44, tzinfo=UTC)
    first, *_, last = next_times("*/15 * * * *", "Europe/Berlin", 5, after)
    assert (first.isoformat(), last.isoformat()) == (
        "2026-10-25T02:45:00+02:00",
        "2026-10-25T02:45:00+01:00",
    )


def test_by_default_ten_times_from_now_on():
    """In UTC."""
    before = datetime.now(UTC)
    found = next_times("* * * * *")
    assert len(found) == 10
    assert before < found[0] <= datetime.now(UTC) + timedelta(minutes=1)
    assert all(after - first == timedelta(minutes=1) for first, after in pairwise(found))
    assert found[0].utcoffset() == timedelta(0)


def test_after_is_not_one_of_them():
    """Nor is what comes before it, in whatever zone it is."""
    after = datetime(2026, 11, 26, 21, 0, tzinfo=timezone(timedelta(hours=1)))
    assert next_times("0 20 * * *", count=1, after=after) == [
        datetime(2026, 11, 27, 20, tzinfo=UTC)
    ]
    after -= timedelta(microseconds=1)
    assert next_times("0 20 * * *", count=1, after=after) == [
        datetime(2026, 11, 26, 20, tzinfo=UTC)
    ]


def test_there_are_fewer_where_the_calendar_ends():
    """Before the year 10000."""
    after = datetime(9998, 6, 1, tzinfo=UTC)
    assert next_times("0 0 1 1 *", after=after) == [datetime(9999, 1, 1, tzinfo=UTC)]
    assert next_times("0 0 1 1 *", count=0) == []


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"cron": "x"}, ValueError, "cron is 'x'"),
        ({"tz": "Mars/Base"}, ValueError, "tz is 'Mars/Base'"),
        ({"count": -1}, ValueError, "count is -1"),
        ({"count": 1.5}, TypeError, "count is 1.5"),
        ({"count": True}, TypeError, "count is True"),
        ({"after": BEFORE_A_GAP.replace(tzinfo=None)}, ValueError, "expected an aware datetime"),
        ({"after": 5}, TypeError, "after is 5"),
        ({"after": datetime.min.replace(tzinfo=TOKYO)}, ValueError, "expected a year of 1 to 9999"),
    ],
)
def test_bad_arguments_are_named(arguments, error, words):
    """With what was expected."""
    with pytest.raises(error, match="expected") as caught:
        next_times(**{"cron": "* * * * *", **arguments})
    assert words in str(caught.value)
