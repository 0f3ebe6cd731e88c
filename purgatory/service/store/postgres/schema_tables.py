"""The tables of a namespace, as the present schema has them. Constants; any thread.

`{schema}` stands for the schema. Texts of clients are `bytea` (see `wire_values`), times Unix
milliseconds. `lease` and `purgatory_version` have one row.
"""

from typing import Final

from purgatory.service.store.shared_tables import (
    ATTEMPTS,
    EXTENSIONS_AND_HELD_EVENTS,
    JOB_LIVES,
    JOBS,
    PROGRESS,
    SPREADS,
)

#: No other program has such a table.
VERSION_TABLE: Final = "purgatory_version"

_OWN_TABLES: Final = """
CREATE TABLE {schema}.purgatory_version (version int8 NOT NULL);
CREATE TABLE {schema}.lease ( -- which server is active
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    epoch int8 NOT NULL DEFAULT 0, -- grows with each takeover
    beat int8 NOT NULL DEFAULT 0, -- with all that the holder writes
    commits int8 NOT NULL DEFAULT 0, -- with each group
    holder text NOT NULL DEFAULT '', -- empty: there is none
    address text NOT NULL DEFAULT '',
    handover bool NOT NULL DEFAULT false, -- the holder is asked to hand over
    clock_ms int8 NOT NULL, -- service time
    clock_at timestamptz NOT NULL, -- the database's time at that
    committed_at timestamptz, -- of the last group
    last_operation int8 NOT NULL DEFAULT 0, -- the last numbers ever given
    last_outcome int8 NOT NULL DEFAULT 0,
    last_event int8 NOT NULL DEFAULT 0,
    last_extension int8 NOT NULL DEFAULT 0,
    last_job int8 NOT NULL DEFAULT 0
) WITH (fillfactor = 20);
CREATE TABLE {schema}.members ( -- standbys that have looked at the lease
    holder text PRIMARY KEY,
    address text NOT NULL,
    seen timestamptz NOT NULL
) WITH (fillfactor = 20);
CREATE TABLE {schema}.meta (
    key text PRIMARY KEY,
    value bytea NOT NULL -- MessagePack
);
CREATE TABLE {schema}.batches (
    first int8 PRIMARY KEY, -- number of the first operation ever in it
    last int8 NOT NULL, -- and of the last one
    size int8 NOT NULL, -- operations in it, deleted ones too
    client bytea NOT NULL,
    submitted_ms int8 NOT NULL,
    numbers bytea, -- MessagePack: array of their numbers; NULL: first to last
    operations bytea NOT NULL, -- MessagePack: an array of PackedOperation
    remaining int8 NOT NULL -- operations in it that are not deleted
);
CREATE TABLE {schema}.forgotten (number int8 PRIMARY KEY); -- deleted, of batches that have others
CREATE TABLE {schema}.outcomes (
    first int8 PRIMARY KEY, -- seq of the first outcome ever in it
    last int8 NOT NULL,
    size int8 NOT NULL,
    seqs int8[], -- NULL: first to last
    heads bytea NOT NULL, -- MessagePack: OutcomeHeads
    bodies bytea NOT NULL, -- MessagePack: OutcomeBodies
    remaining int8 NOT NULL
);
CREATE TABLE {schema}.forgotten_outcomes (seq int8 PRIMARY KEY);
"""

# SQLite's words, and PostgreSQL's.
_WORDS: Final = {
    " WITHOUT ROWID": "",
    " AUTOINCREMENT": "",
    "INTEGER": "int8",
    "TEXT": "bytea",
    "BLOB": "bytea",
    "REAL": "float8",
    "CREATE TABLE ": "CREATE TABLE {schema}.",
    " ON remembered ": " ON {schema}.remembered ",
}


def translated(tables: str) -> str:
    """Return tables of `shared_tables` as PostgreSQL reads them."""
    for word, ours in _WORDS.items():
        tables = tables.replace(word, ours)
    return tables


TABLES: Final = _OWN_TABLES + translated(
    PROGRESS + EXTENSIONS_AND_HELD_EVENTS + JOBS + SPREADS + JOB_LIVES + ATTEMPTS
)
