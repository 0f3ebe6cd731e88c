"""Cron expressions in time zones, against a model that looks at each minute of a zone's clock."""

import contextlib
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from cronsim import CronSim
from hypothesis import example, given
from hypothesis import strategies as st

import purgatory
from purgatory.cron.expression import (
    CronExpression,
    first_instant,
    next_change,
    next_times,
    offset_at,
    wall_time,
    zone,
)

MINUTE = timedelta(minutes=1)
#: A zone, and a day at which its clock jumps.
JUMPS = [
    ("Europe/Berlin", datetime(2026, 3, 29, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 25, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 8, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, tzinfo=UTC)),
    ("Europe/Dublin", datetime(2026, 3, 29, tzinfo=UTC)),
    ("Europe/Dublin", datetime(2026, 10, 25, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 3, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 30, tzinfo=UTC)),
    ("Pacific/Kwajalein", datetime(1993, 8, 21, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2018, 11, 4, tzinfo=UTC)),
    ("Africa/Casablanca", datetime(2026, 2, 15, tzinfo=UTC)),
    ("Asia/Pyongyang", datetime(2018, 5, 4, tzinfo=UTC)),
    ("America/Caracas", datetime(2016, 5, 1, tzinfo=UTC)),
    ("Asia/Kathmandu", datetime(2026, 5, 1, tzinfo=UTC)),
    ("UTC", datetime(2026, 3, 29, tzinfo=UTC)),
]


def matches(sim, wall):
    """Tell whether a parsed expression names a time, by its fields."""
    return (
        wall.minute in sim.minutes
        and wall.hour in sim.hours
        and wall.month in sim.months
        and sim.match_day(wall.date())
    )


def times_by_looking(cron, tz, start, end):
    """Return the instants of (start, end], by a look at each minute: the model.

    A pattern of each hour runs when the clock shows one of its times. Any other runs when the clock
    shows, or jumps over, times that it has never shown before.
    """
    sim = CronSim(cron, start)
    is_hourly = len(sim.hours) == 24
    found = []
    # Long before the start: a clock that was set back has shown these times.
    instant = start - timedelta(days=2)
    latest = wall_time(instant, tz)
    while instant < end:
        instant += MINUTE
        wall = wall_time(instant, tz)
        if is_hourly:
            hit = matches(sim, wall)
        else:
            new = [latest + n * MINUTE for n in range(1, int((wall - latest) / MINUTE) + 1)]
            hit = any(matches(sim, each) for each in new)
            latest = max(latest, wall)
        if hit and instant > start:
            found.append(instant)
    return found


def times(cron, tz, start, end):
    """Return the instants of (start, end], one after the other."""
    expression = CronExpression(cron, tz)
    found = []
    last = start
    while (last := expression.next_after(last)) is not None and last <= end:
        found.append(last)
    return found


def field(low, high):
    """Generate a field: a star, steps, a range or a list."""
    number = st.integers(low, high)
    return st.one_of(
        st.just("*"),
        st.integers(1, high).map("*/{}".format),
        number.map(str),
        st.tuples(number, number).map(sorted).map("{0[0]}-{0[1]}".format),
        st.lists(number, min_size=2, max_size=4, unique=True).map(
            lambda numbers: ",".join(map(str, numbers))
        ),
    )


@example("30 2 * * *", 0, 0)
@example("30 2 * * *", 1, 600)
@example("*/15 * * * *", 1, 0)
@example("0 */2 * * *", 0, 0)
@example("59 23 * * *", 8, 0)
@example("0 0 30 12 *", 8, 0)
@example("10 0-23 * * *", 7, 0)
@given(
    st.tuples(
        field(0, 59), field(0, 23), st.just("*"), st.just("*"), st.sampled_from(["*", "0", "1-5"])
    ).map(" ".join),
    st.integers(0, len(JUMPS) - 1),
    st.integers(-1440, 1440),
)
def test_it_finds_what_a_look_at_each_minute_finds(cron, jump, minutes):
    """Around the days at which clocks jump: by an hour, half of it, a day, forth and back."""
    name, day = JUMPS[jump]
    start = day - timedelta(days=1) + minutes * MINUTE
    end = start + timedelta(days=2)
    assert times(cron, name, start, end) == times_by_looking(cron, zone(name), start, end)


@given(
    st.sampled_from(["30 2 * * *", "*/20 * * * *", "0 1,2,3 * * *", "7 * * * *"]),
    st.integers(0, len(JUMPS) - 1),
    st.integers(-172_800_000, 172_800_000),
    st.integers(1, 100_000_000),
)
def test_what_comes_next_does_not_depend_on_the_questions(cron, jump, ms, more):
    """The next time after an instant is the next one after each instant before it, too."""
    name, day = JUMPS[jump]
    expression = CronExpression(cron, name)
    after = day + timedelta(milliseconds=ms)
    found = expression.next_after(after)
    later = after + timedelta(milliseconds=more)
    assert found > after
    if later < found:
        assert expression.next_after(later) == found
    else:
        assert expression.next_after(later) > found


def test_quarters_of_an_hour_in_a_fold():
    """Eight in the two hours in which the clock shows two to three."""
    start = datetime(2026, 10, 24, 23, 59, tzinfo=UTC)
    found = times("*/15 * * * *", "Europe/Berlin", start, start + timedelta(hours=2))
    assert found == [start + MINUTE + n * 15 * MINUTE for n in range(8)]


def test_a_step_of_hours_is_no_pattern_of_each_hour():
    """Every two hours: the skipped one runs after the gap."""
    start = datetime(2026, 3, 29, 0, tzinfo=UTC)  # 1 o'clock
    found = times("0 */2 * * *", "Europe/Berlin", start, start + timedelta(hours=3))
    assert found == [start + timedelta(hours=1), start + timedelta(hours=2)]  # 3 (for 2), 4


def test_days_that_come_seldom():
    """February 29, over 2100, which has none; and one each hour of it, after a change of offset."""
    leap = CronExpression("0 12 29 2 *", "Europe/Berlin")
    assert leap.next_after(datetime(2097, 1, 1, tzinfo=UTC)) == datetime(
        2104, 2, 29, 11, tzinfo=UTC
    )
    hourly = CronExpression("0 * 29 2 *", "Europe/Berlin")
    assert hourly.next_after(datetime(2096, 3, 1, tzinfo=UTC)) == datetime(
        2104, 2, 28, 23, tzinfo=UTC
    )


@pytest.mark.parametrize("cron", ["0 0 1 1 *", "* * * * *", "0 0 * * *"])
def test_the_calendar_ends(cron):
    """There is no time in the year 10000."""
    expression = CronExpression(cron, "Asia/Tokyo")
    assert expression.next_after(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("short", "long"),
    [("@daily", "0 0 * * *"), (" @HOURLY ", "0 * * * *"), ("@weekly", "0 0 * * 0")],
)
def test_short_forms(short, long):
    """As in crontabs."""
    after = datetime(2026, 11, 26, 20, 19, tzinfo=UTC)
    assert CronExpression(short).next_after(after) == CronExpression(long).next_after(after)


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "5-1 * * * *",
        "a * * * *",
        "@reboot",
        "1" * 5000,
        "² * * * *",
    ],
)
def test_a_bad_expression_is_named(cron):
    """The error has the value and what was expected."""
    with pytest.raises(ValueError, match="expected minute, hour, day, month and weekday") as caught:
        CronExpression(cron)
    assert cron[:1000] in str(caught.value)


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "* * */20 * 1L"])
def test_what_never_runs_is_refused(cron):
    """No day is the thirtieth of February."""
    with pytest.raises(ValueError, match="cron is"):
        CronExpression(cron)


@given(st.text(alphabet="0123456789*/,-#LW @ANMOT", max_size=24).map(lambda text: f"{text} * *"))
def test_any_text_is_read_or_refused(text):
    """Nothing but a ValueError."""
    after = datetime(2026, 1, 1, tzinfo=UTC)
    with contextlib.suppress(ValueError):
        found = CronExpression(text).next_after(after)
        assert found is None or found > after


def test_it_is_a_text():
    """Anything else is a TypeError."""
    with pytest.raises(TypeError, match="cron is 5"):
        CronExpression(5)


def test_repr():
    """It shows what it was made of."""
    assert (
        repr(CronExpression("5 4 * * *", "Asia/Tokyo"))
        == "CronExpression('5 4 * * *', 'Asia/Tokyo')"
    )


def utc(*values):
    """Make an instant."""
    return datetime(*values, tzinfo=UTC)


def shows(*values):
    """Make a time that a clock shows, without a zone."""
    return utc(*values).replace(tzinfo=None)


@pytest.mark.parametrize(
    "name", ["", "Mars/Base", "Europe", "../UTC", "/etc/passwd", "a\0b", "x" * 5000]
)
def test_an_unknown_zone_is_named(name):
    """The error has the value and what was expected; directories and paths are no zones."""
    with pytest.raises(ValueError, match="expected the name of a time zone") as caught:
        zone(name)
    assert repr(name) in str(caught.value)


def test_a_zone_has_a_name():
    """Anything but a text is a TypeError."""
    with pytest.raises(TypeError, match="tz is 3"):
        zone(3)


def test_a_time_that_comes_twice_is_the_first():
    """Half past two in the fold of Berlin: in summer time."""
    assert first_instant(shows(2026, 10, 25, 2, 30), zone("Europe/Berlin")) == utc(
        2026, 10, 25, 0, 30
    )


@pytest.mark.parametrize(
    ("name", "wall", "shown"),
    [
        ("Europe/Berlin", shows(2026, 3, 29, 2, 30), shows(2026, 3, 29, 3)),
        ("Europe/Berlin", shows(2026, 3, 29, 2), shows(2026, 3, 29, 3)),
        ("Europe/Berlin", shows(2026, 3, 29, 2, 59, 59), shows(2026, 3, 29, 3)),
        ("Australia/Lord_Howe", shows(2026, 10, 4, 2, 15), shows(2026, 10, 4, 2, 30)),
        ("Pacific/Apia", shows(2011, 12, 30, 17, 5), shows(2011, 12, 31)),
        ("Europe/Dublin", shows(2026, 3, 29, 1, 1), shows(2026, 3, 29, 2)),
        ("America/Sao_Paulo", shows(2018, 11, 4, 0, 0), shows(2018, 11, 4, 1)),
    ],
)
def test_a_time_that_does_not_exist_is_the_end_of_the_gap(name, wall, shown):
    """Also where half an hour or a whole day is skipped, and where summer is standard time."""
    instant = first_instant(wall, zone(name))
    assert wall_time(instant, zone(name)) == shown
    just_before = wall_time(instant - timedelta(seconds=1), zone(name))
    assert just_before < wall < shown


def test_the_next_change_is_found_to_the_second():
    """Of several the first; none where there is none, the end included."""
    berlin = zone("Europe/Berlin")
    spring = utc(2026, 3, 29, 1)
    assert next_change(utc(2026, 1, 1), utc(2027, 1, 1), berlin) == spring
    assert next_change(utc(2026, 1, 1), spring, berlin) == spring
    assert next_change(utc(2026, 1, 1), spring - timedelta(seconds=1), berlin) is None
    assert next_change(spring, utc(2026, 10, 25), berlin) is None
    assert next_change(spring, spring, berlin) is None
    assert offset_at(spring, berlin) == timedelta(hours=2)


BEFORE_A_GAP = datetime(2026, 3, 28, tzinfo=UTC)


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
    ],
)
def test_bad_arguments_are_named(arguments, error, words):
    """With what was expected."""
    with pytest.raises(error, match="expected") as caught:
        next_times(**{"cron": "* * * * *", **arguments})
    assert words in str(caught.value)
