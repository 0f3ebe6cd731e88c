"""Which jobs a command is about, and when they are due."""

import argparse
from datetime import UTC, datetime

import pytest

from purgatory.cli.jobs.selection import STATES, check_selection, filters, moment_of
from purgatory.service.errors import ConfigError
from purgatory.service.job_messages import JOB_STATES


def test_the_states():
    """They are those of the protocol."""
    assert STATES == JOB_STATES


def test_moments():
    """What has no zone is local."""
    assert moment_of("2027-03-01T09:00+01:00") == datetime(2027, 3, 1, 8, tzinfo=UTC)
    local = moment_of("2027-03-01 09:00")
    assert local.utcoffset() is not None
    assert (local.hour, local.minute) == (9, 0)


@pytest.mark.parametrize("text", ["tomorrow", "", "2027-13-01", "09:00", "9999-12-31T23:59-23:00"])
def test_what_is_no_moment(text):
    """The error says what is."""
    with pytest.raises(argparse.ArgumentTypeError, match="expected a moment such as"):
        moment_of(text)


def arguments(**given):
    return argparse.Namespace(**{"ids": [], "kind": None, "tag": None} | given)


def test_filters():
    """Those that are given, by name."""
    assert filters(arguments()) == {}
    assert filters(arguments(kind="mail", state="dead")) == {"kind": "mail", "state": "dead"}


@pytest.mark.parametrize(
    "given",
    [{}, {"ids": ["a"], "kind": "mail"}, {"ids": ["a"], "all": True}, {"tag": "t", "all": True}],
)
def test_a_bad_selection(given):
    """None, or more than one way to select."""
    with pytest.raises(ConfigError, match="jobs drop: expected one ID or more, or else filters"):
        check_selection("drop", arguments(**given))


@pytest.mark.parametrize("given", [{"ids": ["a"]}, {"kind": "mail", "tag": "t"}, {"all": True}])
def test_a_selection(given):
    """One way to select."""
    check_selection("drop", arguments(**given))
