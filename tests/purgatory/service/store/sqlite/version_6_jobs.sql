BEGIN TRANSACTION;
CREATE TABLE batches (
    first INTEGER PRIMARY KEY, -- number of the first operation ever in it
    last INTEGER NOT NULL, -- and of the last one
    size INTEGER NOT NULL, -- operations in it
    client TEXT NOT NULL,
    submitted_ms INTEGER NOT NULL, -- Unix
    numbers BLOB, -- MessagePack: array of their numbers; NULL: first to last
    operations BLOB NOT NULL -- MessagePack: an array of _PackedOperation
);
INSERT INTO "batches" VALUES(1,6,6,'c',1000000000000,NULL,X'9696A4646F6E6591A4646F6E65CD03E800A0C096A46465616491A464656164CD03E800A0C096A87265747279696E6791A87265747279696E67CD03E800A0C098A772756E6E696E6791A772756E6E696E67CD03E800A0C00094CE05265C0091AB637573746F6D65723A343200C096A5726561647991A57265616479CD03E800A46D61696CC096A97363686564756C656491A16BCDEA6000A0C0');
CREATE TABLE deadlines ( -- of operations that were extended
    number INTEGER PRIMARY KEY,
    deadline_ms INTEGER NOT NULL
);
CREATE TABLE forgotten (number INTEGER PRIMARY KEY);
CREATE TABLE held ( -- events that also count for operations submitted later
    key TEXT PRIMARY KEY,
    number INTEGER NOT NULL, -- in the order in which they came
    at_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    units INTEGER NOT NULL, -- for so many more operations; -1: for any number
    value BLOB NOT NULL -- MessagePack
) WITHOUT ROWID;
CREATE TABLE jobs ( -- what has become of due jobs; one that is not here waits for a first attempt
    seq INTEGER PRIMARY KEY, -- of the outcome
    state INTEGER NOT NULL, -- of JobState
    attempts INTEGER NOT NULL, -- that have ended
    at_ms INTEGER NOT NULL, -- the next attempt not before; when it was done, or given up
    error TEXT NOT NULL -- of the last attempt
);
INSERT INTO "jobs" VALUES(1,1,1,1000000001001,'');
INSERT INTO "jobs" VALUES(2,2,2,1000000001001,'Boom: z');
INSERT INTO "jobs" VALUES(3,0,1,1000000601001,'Boom: y');
CREATE TABLE limits ( -- of kinds of jobs, for all workers
    kind TEXT PRIMARY KEY,
    paused INTEGER NOT NULL,
    running INTEGER NOT NULL, -- 0: any number
    per_second REAL NOT NULL -- 0: any number
) WITHOUT ROWID;
INSERT INTO "limits" VALUES('mail',0,3,0.0);
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO "meta" VALUES('boot_id','boot 1');
INSERT INTO "meta" VALUES('drift_ms',0);
INSERT INTO "meta" VALUES('lease_epoch',1000000000);
INSERT INTO "meta" VALUES('offset_ns',999999995000000000);
INSERT INTO "meta" VALUES('source','938105c8cfb71439');
CREATE TABLE named_leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    token INTEGER NOT NULL,
    until_ms INTEGER NOT NULL
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
INSERT INTO "outcomes" VALUES(1,1,'expired',1000000001000,1,NULL,NULL);
INSERT INTO "outcomes" VALUES(2,2,'expired',1000000001000,1,NULL,NULL);
INSERT INTO "outcomes" VALUES(3,3,'expired',1000000001000,1,NULL,NULL);
INSERT INTO "outcomes" VALUES(4,4,'expired',1000000001000,1,NULL,NULL);
INSERT INTO "outcomes" VALUES(5,5,'expired',1000000001000,1,NULL,NULL);
CREATE TABLE progress ( -- of operations that need several keys
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL, -- MessagePack
    PRIMARY KEY (number, key)
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
CREATE TABLE queued_jobs ( -- that have ended, those of a transaction, until the journal has them
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- of the last job
    first INTEGER NOT NULL, -- number of the first
    jobs BLOB NOT NULL -- MessagePack: an array of QueuedJob
);
CREATE TABLE remembered ( -- what has ended, and has an id from a caller, until its time
    place INTEGER PRIMARY KEY,
    until_ms INTEGER NOT NULL, -- Unix, minus the metadata's remembered_shift
    hash INTEGER NOT NULL, -- of the id, 40 bits
    seq INTEGER NOT NULL, -- of the outcome; 0: a job
    status BLOB NOT NULL -- MessagePack: an OperationStatus; of a job a JobStatus
);
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
CREATE TABLE replies ( -- to the latest requests of a session, to repeat them
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    reply BLOB NOT NULL, -- its frame
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE TABLE results ( -- of jobs that are done
    seq INTEGER PRIMARY KEY, -- of the outcome
    result BLOB NOT NULL -- MessagePack
);
INSERT INTO "results" VALUES(1,X'A23432');
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
CREATE INDEX remembered_until ON remembered (until_ms);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('outcomes',5);
COMMIT;
PRAGMA user_version=6;
