"""The errors of the service: each is exported, and a refusal has its code."""

import purgatory.service
from purgatory.service import errors


def test_every_error_is_there():
    """Every error is exported, has the base of all, and a refusal has a code of its own."""
    found = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert {error.__name__ for error in found} <= set(purgatory.service.__all__)
    assert all(issubclass(error, purgatory.PurgatoryError) for error in found)
    refusals = [error for error in found if issubclass(error, errors.Refused)]
    assert len({error.code for error in refusals}) == len(refusals)
    for error in refusals:
        assert type(errors.error_for(error.code, "message")) is error
    assert type(errors.error_for("of a later version", "message")) is errors.Refused


def test_a_standby_says_where_the_active_server_is():
    """The message carries the address; without one the address is empty."""
    assert errors.Standby("standby of tcp://a:7411").address == "tcp://a:7411"
    assert errors.Standby("standby: no server is active").address == ""
