"""The tables of a namespace, as the present version of the schema has them. Constants; any thread.

`{schema}` stands for the name of the schema. Texts of clients are `bytea` (see `wire_values`),
times Unix milliseconds. The rows of `lease` and of `purgatory_version` are one each.
"""

from typing import Final

#: Its row has the version of the schema; no other program has such a table.
VERSION_TABLE: Final = "purgatory_version"

TABLES: Final = """
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
CREATE TABLE {schema}.progress ( -- of operations that need several keys
    number int8 NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL, -- MessagePack
    PRIMARY KEY (number, key)
);
CREATE TABLE {schema}.deadlines ( -- of operations that were extended
    number int8 PRIMARY KEY,
    deadline_ms int8 NOT NULL
);
CREATE TABLE {schema}.held ( -- events that also count for operations submitted later
    key bytea PRIMARY KEY,
    number int8 NOT NULL, -- in the order in which they came
    at_ms int8 NOT NULL,
    until_ms int8 NOT NULL,
    units int8 NOT NULL, -- for so many more operations; -1: for any number
    value bytea NOT NULL -- MessagePack
);
CREATE TABLE {schema}.replies ( -- to the latest requests of a session, to repeat them
    session bytea NOT NULL,
    seq int8 NOT NULL,
    at_ms int8 NOT NULL,
    reply bytea NOT NULL, -- its frame
    PRIMARY KEY (session, seq)
);
CREATE TABLE {schema}.jobs ( -- what has become of due jobs
    seq int8 PRIMARY KEY, -- of the outcome
    state int8 NOT NULL, -- of JobState
    attempts int8 NOT NULL, -- that have ended
    at_ms int8 NOT NULL, -- the next attempt not before; when it was done, or given up
    error bytea NOT NULL -- of the last attempt
);
CREATE TABLE {schema}.results ( -- of jobs that are done
    seq int8 PRIMARY KEY, -- of the outcome
    result bytea NOT NULL -- MessagePack
);
CREATE TABLE {schema}.attempts ( -- of jobs that have failed, the last ones
    seq int8 NOT NULL, -- of the outcome
    place int8 NOT NULL, -- of a later attempt it is larger
    number int8 NOT NULL, -- of the attempt
    began_ms int8 NOT NULL, -- Unix
    ended_ms int8 NOT NULL,
    worker bytea NOT NULL,
    error bytea NOT NULL, -- empty: it has succeeded
    PRIMARY KEY (seq, place)
);
CREATE TABLE {schema}.spreads ( -- events that end many operations
    number int8 PRIMARY KEY,
    key bytea NOT NULL,
    at_ms int8 NOT NULL,
    failed int8 NOT NULL,
    last int8 NOT NULL, -- number of the last operation that they are for
    first_seq int8 NOT NULL, -- of the first outcome that may refer to the value
    last_seq int8 NOT NULL, -- and of the last one; 0: there will be more
    ended int8 NOT NULL, -- operations
    session bytea NOT NULL, -- of the request
    seq int8 NOT NULL,
    place int8 NOT NULL,
    counts bytea NOT NULL,
    value bytea NOT NULL -- MessagePack
);
CREATE TABLE {schema}.remembered ( -- what has ended, and has an id from a caller, until its time
    place int8 PRIMARY KEY,
    until_ms int8 NOT NULL, -- minus the metadata's remembered_shift
    hash int8 NOT NULL, -- of the id, 40 bits
    seq int8 NOT NULL, -- of the outcome; 0: a job
    status bytea NOT NULL -- MessagePack: an OperationStatus; of a job a JobStatus
);
CREATE INDEX remembered_until ON {schema}.remembered (until_ms);
CREATE TABLE {schema}.remembered_shards ( -- entries of RememberedIds, of all rows up to a place
    shard int8 PRIMARY KEY,
    last_place int8 NOT NULL,
    entries bytea NOT NULL
);
CREATE TABLE {schema}.repeats (
    client bytea NOT NULL,
    name bytea NOT NULL,
    next_ms int8 NOT NULL, -- time of the next run, without its jitter; 0: there is none
    last_ms int8 NOT NULL, -- of the last one; 0: there was none
    paused int8 NOT NULL,
    skipped int8 NOT NULL,
    every_ms int8 NOT NULL, -- 0: by the calendar
    settings bytea NOT NULL, -- MessagePack: a Repeat
    PRIMARY KEY (client, name)
);
CREATE TABLE {schema}.named_leases (
    name bytea PRIMARY KEY,
    holder bytea NOT NULL,
    token int8 NOT NULL,
    until_ms int8 NOT NULL
);
CREATE TABLE {schema}.limits ( -- of kinds of jobs, for all workers
    kind bytea PRIMARY KEY,
    paused int8 NOT NULL,
    running int8 NOT NULL, -- 0: any number
    per_second float8 NOT NULL -- 0: any number
);
CREATE TABLE {schema}.queued_events ( -- until the journal has them
    number int8 PRIMARY KEY,
    key bytea NOT NULL,
    at_ms int8 NOT NULL,
    hold_ms int8 NOT NULL,
    failed int8 NOT NULL
);
CREATE TABLE {schema}.queued_extensions (
    number int8 PRIMARY KEY,
    op_id bytea NOT NULL,
    at_ms int8 NOT NULL,
    timeout_ms int8 NOT NULL
);
CREATE TABLE {schema}.queued_jobs ( -- that have ended, those of a group
    number int8 PRIMARY KEY, -- of the last one
    first int8 NOT NULL,
    jobs bytea NOT NULL -- MessagePack: an array of QueuedJob
);
"""
