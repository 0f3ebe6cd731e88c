"""Cron expressions in time zones, against a model that looks at each minute of a zone's clock."""

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from cronsim import CronSim
from hypothesis import example, given
from hypothesis import strategies as st

from purgatory.cron.expression import CronExpression
from purgatory.cron.zones import wall_time, zone

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
        "1-5-5/2 * * * *",
        "*/5-5/2 * * * *",
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


@pytest.mark.parametrize(
    ("cron", "same"),
    [
        ("51-51/1 * * * *", "51 * * * *"),
        ("0 5-5/7,9 * * *", "0 5,9 * * *"),
        ("0 0 3-3/2 * *", "0 0 3 * *"),
        ("0 0 * jan-jan/3 *", "0 0 * 1 *"),
        ("0 0 * * mon-mon/2", "0 0 * * 1"),
        ("15-15/1,5-55/5 * * * *", "5-55/5 * * * *"),
    ],
)
def test_a_range_of_one_value_with_a_step(cron, same):
    """It is that value."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    expressions = [CronExpression(cron), CronExpression(same)]
    last = [start, start]
    for _ in range(20):
        last = [each.next_after(at) for each, at in zip(expressions, last, strict=True)]
        assert last[0] == last[1]
