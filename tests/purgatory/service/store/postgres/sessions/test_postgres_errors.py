"""Errors of sessions."""

import pickle

import pytest

from purgatory.errors import StoreError
from purgatory.service.store.postgres.sessions.postgres_errors import (
    StatementRefused,
    damage_refused,
)


def test_refusals():
    """What the code means, also after a trip to another process."""
    error = pickle.loads(pickle.dumps(StatementRefused("no", "25006", 3)))
    assert (str(error), error.code, error.index) == ("no", "25006", 3)
    assert error.is_read_only
    assert not error.is_race
    assert not error.fatal


def test_damage():
    """Values that cannot be what was written end the server."""
    with (
        pytest.raises(StoreError, match="where: the database is damaged") as caught,
        damage_refused("where"),
    ):
        raise KeyError(7)
    assert caught.value.fatal
