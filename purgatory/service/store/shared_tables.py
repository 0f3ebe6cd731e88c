"""The tables of both stores, with a row for each thing, as SQLite reads them. Constants.

Grouped as the versions of SQLite's schema added them. The SQL is that of its time: it does not
change when a schema does. `table_store` has today's shapes.
"""

from typing import Final

PROGRESS: Final = """
CREATE TABLE progress ( -- of operations that need several keys
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL, -- MessagePack
    PRIMARY KEY (number, key)
) WITHOUT ROWID;
"""

EXTENSIONS_AND_HELD_EVENTS: Final = """
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

JOBS: Final = """
CREATE TABLE jobs ( -- what has become of due jobs; one that is not here waits for a first attempt
    seq INTEGER PRIMARY KEY, -- of the outcome
    state INTEGER NOT NULL, -- of JobState
    attempts INTEGER NOT NULL, -- that have ended
    at_ms INTEGER NOT NULL, -- the next attempt not before; when it was done, or given up
    error TEXT NOT NULL -- of the last attempt
);
"""

SPREADS: Final = """
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

JOB_LIVES: Final = """
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

ATTEMPTS: Final = """
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
