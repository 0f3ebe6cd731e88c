"""Durations as texts: on the command line, in settings."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purgatory.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", 30), ("0.25", 0.25), ("1e3", 1000), ("-1", -1),
        ("500ms", 0.5), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1.5h", 5400), ("1h30m", 5400),
        ("2d", 172_800), ("1w", 604_800), ("1d2h3m4s5ms", 93_784.005), ("5m30ms", 300.03),
        ("PT30M", 1800), ("P1DT2H", 93_600), ("PT0.5S", 0.5), ("P2W", 1_209_600), ("P1D", 86_400),
        ("pt5s", 5), (" 5s ", 5), ("30M", 1800),
    ],
)  # fmt: skip
def test_forms(text, expected):
    assert parse_duration(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    ["", " ", "x", "5x", "s", "m5", "30m1h", "1h 30m", "P", "PT", "P1DT", "P1Y", "P1M", "PT1D",
     "P1H", "T5S", "-5m", "5m-", "1,5h", "٣x", "٣", "٣h", "1h1h"],
)  # fmt: skip
def test_no_duration(text):
    """The message names the text and what was expected."""
    with pytest.raises(ValueError, match="is not a valid duration; expected seconds") as e:
        parse_duration(text)
    assert repr(text) in str(e.value)


@given(st.text(alphabet="0123456789.PTWDHMSwdhms -eE", max_size=12))
def test_any_text(text):
    """It is a number or one kind of error."""
    try:
        assert math.isfinite(parse_duration(text))
    except ValueError:
        pass


@given(*[st.integers(0, 99)] * 4)
def test_both_forms_say_the_same(days, hours, minutes, secs):
    short, iso = f"{days}d{hours}h{minutes}m{secs}s", f"P{days}DT{hours}H{minutes}M{secs}S"
    total = ((days * 24 + hours) * 60 + minutes) * 60 + secs
    assert parse_duration(short) == parse_duration(iso) == total


@given(st.integers(0, 10**6), st.integers(0, 999))
@example(0, 9)
def test_milliseconds_are_exact(secs, milliseconds):
    """No text is the next millisecond, as a product of floats may be."""
    exact = (1000 * secs + milliseconds) / 1000
    assert parse_duration(f"{secs}s{milliseconds}ms") == exact
    assert parse_duration(f"{milliseconds}ms") == milliseconds / 1000


@pytest.mark.parametrize(
    "text", ["nan", "NaN", " nan ", "-nan", "inf", "-inf", "Infinity", "1e999", "9" * 400 + "w"]
)
def test_not_finite(text):
    """NaN compares as neither early nor late, and no wait can last for an infinite time."""
    with pytest.raises(ValueError, match="is not a valid duration"):
        parse_duration(text)
