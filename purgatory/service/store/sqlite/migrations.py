"""Migrations: bring a database of an earlier schema to the present one, a version at a time.

Each step is a transaction, so one that fails leaves the version before. A new database gets the
tables of all versions at once. The SQL is that of its time: it does not change when the schema
does. Used by the thread that opens the store.
"""

import sqlite3
from collections.abc import Callable
from itertools import count
from typing import Final

import msgspec
from msgspec import Raw

Note = Callable[[str], None]
"""Gets the progress of a long step, as a text for people."""


def quiet(_: str) -> None:
    """Ignore a text."""


# Rows between two notes.
_NOTED: Final = 1000

#: What remains of the tables of version 1.
_FIRST_TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE progress ( -- of operations that need several keys
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL, -- MessagePack
    PRIMARY KEY (number, key)
) WITHOUT ROWID;
CREATE TABLE outcomes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    number INTEGER NOT NULL, -- of the operation
    outcome TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    lateness_ms INTEGER NOT NULL,
    by_key TEXT,
    result BLOB -- MessagePack
);
"""

_BATCHES: Final = """
CREATE TABLE batches (
    first INTEGER PRIMARY KEY, -- number of the first operation ever in it
    last INTEGER NOT NULL, -- and of the last one
    size INTEGER NOT NULL, -- operations in it
    client TEXT NOT NULL,
    submitted_ms INTEGER NOT NULL, -- Unix
    numbers BLOB, -- MessagePack: array of their numbers; NULL: first to last
    operations BLOB NOT NULL -- MessagePack: an array of PackedOperation
);
CREATE TABLE forgotten ( -- deleted, of batches that have others
    number INTEGER PRIMARY KEY
);
"""

_MOVE_OPERATIONS: Final = """
INSERT INTO meta SELECT 'last', seq FROM sqlite_sequence WHERE name = 'operations';
INSERT INTO batches SELECT number, number, 1, client, submitted_ms, NULL,
    packed(op_id, keys, deadline_ms - submitted_ms, need, kind, payload) FROM operations;
DROP TABLE operations;
"""

_EXTENSIONS_AND_HELD_EVENTS: Final = """
CREATE TABLE deadlines ( -- of operations that were extended
    number INTEGER PRIMARY KEY,
    deadline_ms INTEGER NOT NULL
);
CREATE TABLE held ( -- events that also count for operations submitted later
    key TEXT PRIMARY KEY,
    number INTEGER NOT NULL, -- in the order in which they came
    at_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    units INTEGER NOT NULL, -- for so many more operations; -1: for any number
    value BLOB NOT NULL -- MessagePack
) WITHOUT ROWID;
CREATE TABLE replies ( -- to the latest requests of a session, to repeat them
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    reply BLOB NOT NULL, -- its frame
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE TABLE queued_events ( -- until the journal has them
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    hold_ms INTEGER NOT NULL,
    failed INTEGER NOT NULL
);
CREATE TABLE queued_extensions ( -- until the journal has them
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    op_id TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL
);
"""

_JOBS: Final = """
CREATE TABLE jobs ( -- what has become of due jobs; one that is not here waits for a first attempt
    seq INTEGER PRIMARY KEY, -- of the outcome
    state INTEGER NOT NULL, -- of JobState
    attempts INTEGER NOT NULL, -- that have ended
    at_ms INTEGER NOT NULL, -- the next attempt not before; when it was done, or given up
    error TEXT NOT NULL -- of the last attempt
);
"""

_SPREADS: Final = """
CREATE TABLE spreads ( -- events that end many operations
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    last INTEGER NOT NULL, -- number of the last operation that they are for
    first_seq INTEGER NOT NULL, -- of the first outcome that may refer to the value
    last_seq INTEGER NOT NULL, -- and of the last one; 0: there will be more
    ended INTEGER NOT NULL, -- operations
    session TEXT NOT NULL, -- of the request
    seq INTEGER NOT NULL,
    place INTEGER NOT NULL,
    counts BLOB NOT NULL,
    value BLOB NOT NULL -- MessagePack
);
"""

_JOB_LIVES: Final = """
CREATE TABLE results ( -- of jobs that are done
    seq INTEGER PRIMARY KEY, -- of the outcome
    result BLOB NOT NULL -- MessagePack
);
CREATE TABLE remembered ( -- what has ended, and has an id from a caller, until its time
    place INTEGER PRIMARY KEY,
    until_ms INTEGER NOT NULL, -- Unix, minus the metadata's remembered_shift
    hash INTEGER NOT NULL, -- of the id, 40 bits
    seq INTEGER NOT NULL, -- of the outcome; 0: a job
    status BLOB NOT NULL -- MessagePack: an OperationStatus; of a job a JobStatus
);
CREATE INDEX remembered_until ON remembered (until_ms);
CREATE TABLE remembered_shards ( -- entries of RememberedIds, of all rows up to a place
    shard INTEGER PRIMARY KEY,
    last_place INTEGER NOT NULL,
    entries BLOB NOT NULL
);
CREATE TABLE repeats (
    client TEXT NOT NULL,
    name TEXT NOT NULL,
    next_ms INTEGER NOT NULL, -- time of the next run, without its jitter; 0: there is none
    last_ms INTEGER NOT NULL, -- of the last one; 0: there was none
    paused INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    every_ms INTEGER NOT NULL, -- 0: by the calendar
    settings BLOB NOT NULL, -- MessagePack: a Repeat
    PRIMARY KEY (client, name)
) WITHOUT ROWID;
CREATE TABLE named_leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    token INTEGER NOT NULL,
    until_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE limits ( -- of kinds of jobs, for all workers
    kind TEXT PRIMARY KEY,
    paused INTEGER NOT NULL,
    running INTEGER NOT NULL, -- 0: any number
    per_second REAL NOT NULL -- 0: any number
) WITHOUT ROWID;
CREATE TABLE queued_jobs ( -- that have ended, those of a transaction, until the journal has them
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- of the last job
    first INTEGER NOT NULL, -- number of the first
    jobs BLOB NOT NULL -- MessagePack: an array of QueuedJob
);
"""

_ATTEMPTS: Final = """
CREATE TABLE attempts ( -- of jobs that have failed, the last ones
    seq INTEGER NOT NULL, -- of the outcome
    place INTEGER NOT NULL, -- of a later attempt it is larger
    number INTEGER NOT NULL, -- of the attempt
    began_ms INTEGER NOT NULL, -- Unix
    ended_ms INTEGER NOT NULL,
    worker TEXT NOT NULL,
    error TEXT NOT NULL, -- empty: it has succeeded
    PRIMARY KEY (seq, place)
) WITHOUT ROWID;
"""


def run_statements(connection: sqlite3.Connection, statements: str) -> None:
    """Run SQL statements, each of which ends with a semicolon and the end of a line."""
    for statement in statements.split(";\n"):
        connection.execute(statement)


def _pack_operations(connection: sqlite3.Connection, note: Note) -> None:
    """Store operations in batches; present operations become batches of one."""
    [(total,)] = connection.execute("SELECT count(*) FROM operations")
    done = count(1)

    def packed(
        op_id: str, keys: bytes, timeout_ms: int, need: int, kind: str, payload: bytes | None
    ) -> bytes:
        if (number := next(done)) % _NOTED == 0:
            note(f"{number:,} of {total:,} operations are converted")
        return _packed(op_id, keys, timeout_ms, need, kind, payload)

    connection.create_function("packed", 6, packed, deterministic=True)
    run_statements(connection, _BATCHES + _MOVE_OPERATIONS)


def _packed(
    op_id: str, keys: bytes, timeout_ms: int, need: int, kind: str, payload: bytes | None
) -> bytes:
    values = (op_id, Raw(keys), timeout_ms, need, kind, Raw(payload or b"\xc0"))
    return msgspec.msgpack.encode([values])


def _adding(tables: str) -> Callable[[sqlite3.Connection, Note], None]:
    """Return a step that makes tables."""
    return lambda connection, _: run_statements(connection, tables)


#: The tables that each version has added, in order.
_ADDED_TABLES: Final = {
    2: _BATCHES,
    3: _EXTENSIONS_AND_HELD_EVENTS,
    4: _JOBS,
    5: _SPREADS,
    6: _JOB_LIVES,
    7: _ATTEMPTS,
}
#: Version -> the step that leads to it from the version before.
STEPS: Final[dict[int, Callable[[sqlite3.Connection, Note], None]]] = {
    version: _adding(tables) for version, tables in _ADDED_TABLES.items()
} | {2: _pack_operations}


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of a new database, as the steps would, in the caller's transaction."""
    run_statements(connection, _FIRST_TABLES + "".join(_ADDED_TABLES.values()))


def migrate(connection: sqlite3.Connection, version: int, note: Note = quiet) -> int:
    """Run the steps that a database of `version` lacks; returns its version then.

    `note` gets the progress of a long step.
    """
    for target in sorted(STEPS):
        if target > version:
            connection.execute("BEGIN IMMEDIATE")
            STEPS[target](connection, note)
            connection.execute(f"PRAGMA user_version={target}")
            connection.execute("COMMIT")
    return max(STEPS)
