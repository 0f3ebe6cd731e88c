"""Time zones: the first instant at which a clock shows a time, and changes of offsets."""

from datetime import UTC, datetime, timedelta

import pytest

from purgatory.cron.zones import first_instant, next_change, offset_at, wall_time, zone


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
