"""Checks of the arguments of a client's calls."""

from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

from purgatory.service.client.arguments import (
    checked_seconds,
    checked_text,
    checked_texts,
    duration_ms,
    error_texts,
    filter_text,
    is_job,
    moment_ms,
)


@pytest.mark.parametrize(
    ("duration", "ms"),
    [
        (0, 0),
        (1.5, 1500),
        (0.0001, 1),
        (timedelta(hours=1), 3_600_000),
        ("90", 90_000),
        ("30m", 1_800_000),
        ("P1DT2H", 93_600_000),
    ],
)
def test_durations(duration, ms):
    """Seconds, a timedelta or a text, in milliseconds, rounded up."""
    assert duration_ms(duration, "delay") == ms


@pytest.mark.parametrize("duration", [1e12, 10**12, timedelta(seconds=10**12), "1000000000000s"])
def test_durations_beyond_146_years(duration):
    """A server's refusal shows the whole duration; a wait of the program takes 146 years."""
    assert duration_ms(duration, "delay") == 10**15
    assert checked_seconds(duration, "timeout") == 4_611_686_018.428
    assert duration_ms(timedelta.max, "delay") == 86_400_000_000_000_000


@pytest.mark.parametrize(
    ("duration", "error"),
    [
        *[(value, ValueError) for value in ("soon", -1, "-1", "inf")],
        *[(value, TypeError) for value in (None, [], b"1", True)],
    ],
)
def test_what_is_no_duration(duration, error):
    """The error names the value."""
    with pytest.raises(error, match=r"soon|delay|-1|inf"):
        duration_ms(duration, "delay")


@pytest.mark.parametrize("error", [int, KeyboardInterrupt, SystemExit(1), "why", None])
def test_what_is_no_error(error):
    """Neither an exception that a handler would raise nor a class of them."""
    assert error_texts(ValueError) == ("ValueError", "")
    assert error_texts(ValueError("why")) == ("ValueError", "why")
    with pytest.raises(TypeError, match="expected an Exception or a class of them"):
        error_texts(error)


@pytest.mark.parametrize("texts", [None, 5, "k", b"k"])
def test_what_is_no_collection_of_texts(texts):
    """The error names the argument and the value."""
    with pytest.raises(TypeError, match=f"^unless is {texts!r}; expected a collection of texts"):
        checked_texts(texts, "unless")


def test_moments():
    """They are Unix milliseconds, rounded up, whatever their zone."""
    moment = datetime(1970, 1, 2, tzinfo=UTC)
    assert moment_ms(moment, "at") == 86_400_000
    assert moment_ms(moment.replace(tzinfo=timezone(timedelta(hours=1))), "at") == 82_800_000
    assert moment_ms(moment + timedelta(microseconds=1), "at") == 86_400_001
    assert moment_ms(datetime(1960, 1, 1, tzinfo=UTC), "at") == 0


@pytest.mark.parametrize(
    ("moment", "error"),
    [(datetime(1970, 1, 2), ValueError), (5, TypeError), ("1970-01-02", TypeError)],  # noqa: DTZ001
)
def test_what_is_no_moment(moment, error):
    """A datetime without a zone, and anything else."""
    with pytest.raises(error, match=r"at is .* time zone|expected a datetime"):
        moment_ms(moment, "at")


def test_texts():
    """Some texts are not one text; each is a plain `str` that UTF-8 can hold."""

    class Text(str):
        __slots__ = ()

    assert checked_texts({"ä": 1}, "tags") == ("ä",)
    assert type(checked_text(Text("ä"), "kind")) is str
    for bad, error in (("t", TypeError), (b"t", TypeError), ([5], TypeError), (5, TypeError)):
        with pytest.raises(error):
            checked_texts(bad, "tags")
    with pytest.raises(ValueError, match="tags is"):
        checked_texts(["\udce9"], "tags")


@pytest.mark.parametrize(("text", "found"), [(None, None), ("", ""), ("mail", "mail"), ("ä", "ä")])
def test_filters(text, found):
    """None is no filter; an empty text is one."""
    assert filter_text(text, "kind") == found
    with pytest.raises(TypeError, match="kind is 5; expected a str"):
        filter_text(5, "kind")


@pytest.mark.parametrize(
    ("operation", "found"),
    [
        ("a", False),
        (SimpleNamespace(id="a"), True),
        (SimpleNamespace(id="a", op_id=None), True),
        (SimpleNamespace(id="a", op_id="b"), False),
        (SimpleNamespace(op_id="b"), False),
        (SimpleNamespace(id=5), False),
        (SimpleNamespace(id=None), False),
        (None, False),
    ],
)
def test_what_is_a_job(operation, found):
    """An object with the id of a job, and none of an operation."""
    assert is_job(operation) is found
