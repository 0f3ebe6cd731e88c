"""Formatting of durations, numbers, shares, times and names."""

import pytest

from purgatory.spark.report import formatting


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (0.25, "0.25 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (1250, "1.25 s"),
        (90_000, "1.5 min"),
        (86_400_000, "1 d"),
        (400 * 86_400_000, "400 d"),
        (None, "\N{EN DASH}"),
    ],
)
def test_durations_have_the_unit_that_fits(ms, text):
    """Durations have the largest unit that they reach, and about three digits."""
    assert formatting.duration(ms) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12_345.6, "12,300"),
        (1.2345, "1.23"),
        (0.00123, "0.00123"),
        (5.3e-5, "0.000053"),
        (-1.5, "-1.5"),
    ],
)
def test_numbers_have_no_exponent(value, text):
    """Numbers have three digits, grouped or written out."""
    assert formatting.number(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.76012, "76 %"),
        (0.123, "12.3 %"),
        (0.999, "99.9 %"),
        (0.99999, "> 99.99 %"),
        (0.0000196, "< 0.01 %"),
        (0.00123, "0.12 %"),
        (None, "\N{EN DASH}"),
    ],
)
def test_nearly_all_is_not_all(share, text):
    """Near 0 and 100 percent a share says on which side it is."""
    assert formatting.share(share) == text


@pytest.mark.parametrize(
    ("unix_ms", "to_ms", "text"),
    [
        (0, 86_400_000, "1970-01-01"),
        (-1, 1, "1969-12-31 23:59:59.999"),
        (1_700_000_000_123, 60_000, "2023-11-14 22:13"),
        (1_700_000_000_123, 1000, "2023-11-14 22:13:20"),
        (2**61, 1, "2305843009213693952 ms"),
    ],
)
def test_times_are_in_utc(unix_ms, to_ms, text):
    """Times are as precise as asked; beyond any calendar they are plain numbers."""
    assert formatting.utc_time(unix_ms, to_ms) == text


def test_names_are_printable():
    """A name is one line without control characters, and not too long."""
    assert formatting.name("a\nb\x00\u202ec\ud800d") == "a\ufffdb\ufffd\ufffdc\ufffdd"
    assert formatting.name("x" * 99, 10) == "x" * 9 + "\N{HORIZONTAL ELLIPSIS}"
    assert formatting.name("naïve 日本") == "naïve 日本"
