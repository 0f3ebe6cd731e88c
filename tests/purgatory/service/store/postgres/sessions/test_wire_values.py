"""Values as the binary protocol has them, read back by the database."""

import pytest

from purgatory.service.store.postgres.sessions.interrupt import Interrupt
from purgatory.service.store.postgres.sessions.session import open_session, statement
from purgatory.service.store.postgres.sessions.wire_values import (
    column_type,
    wire_array,
    wire_int,
    wire_ints,
)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int8", []),
        ("int8", [0, -1, (1 << 63) - 1, -(1 << 63)]),
        ("float8", [0.25, -1e300]),
        ("bytea", [b"", b"\0", None, b"x" * 5000]),
        ("bytea", []),
    ],
)
def test_arrays(postgres, kind, values):
    """Each value comes back as it was."""
    session = open_session(postgres.url, "test", Interrupt(), 30)
    sql = f"SELECT $1::{column_type(kind)}[], $2::int8, $3::int8[]"
    result = session.run(
        [statement(sql, wire_array(kind, values), wire_int(-5), wire_ints([7]))], 30
    )
    assert session.rows(result[0]) == [(values, -5, [7])]
    session.close()


def test_texts(postgres):
    """They are bytes for the database, which takes any character so."""
    session = open_session(postgres.url, "test", Interrupt(), 30)
    values = ["a\0b", "\u00fc", "", None]
    sql = statement("SELECT unnest($1::bytea[])", wire_array("text", values))
    [result] = session.run([sql], 30)
    assert [row[0] for row in session.rows(result)] == [b"a\0b", "\u00fc".encode(), b"", None]
    session.close()
