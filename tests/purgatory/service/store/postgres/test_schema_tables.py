"""The tables of both stores, in PostgreSQL's words."""

from purgatory.service.store.postgres.schema_tables import TABLES, translated

TABLE = """
CREATE TABLE limits ( -- of kinds
    kind TEXT PRIMARY KEY,
    number INTEGER NOT NULL, -- 0: any
    per_second REAL NOT NULL,
    value BLOB
) WITHOUT ROWID;
"""
TRANSLATED = """
CREATE TABLE {schema}.limits ( -- of kinds
    kind bytea PRIMARY KEY,
    number int8 NOT NULL, -- 0: any
    per_second float8 NOT NULL,
    value bytea
);
"""


def test_types_and_names():
    """Types are PostgreSQL's, names those of a schema."""
    assert translated(TABLE) == TRANSLATED


def test_no_word_of_sqlite_is_left():
    """All tables are PostgreSQL's."""
    for word in ("INTEGER", "TEXT", "BLOB", "REAL", "AUTOINCREMENT", "ROWID", "CREATE TABLE a"):
        assert word not in TABLES
    assert TABLES.count("CREATE TABLE ") == TABLES.count("CREATE TABLE {schema}.")
