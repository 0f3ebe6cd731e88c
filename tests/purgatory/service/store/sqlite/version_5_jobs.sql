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
INSERT INTO "batches" VALUES(1,5,5,'c',1000000000000,NULL,X'9596A4646F6E6591AA646F6E652773206B65790000A4646F6E65A4646F6E6596A46465616491AA646561642773206B65790000A464656164A46465616496A87265747279696E6791AE7265747279696E672773206B65790000A87265747279696E67A87265747279696E6796A772756E6E696E6791AD72756E6E696E672773206B65790000A772756E6E696E67A772756E6E696E6796A5726561647991AB72656164792773206B65790000A57265616479A57265616479');
INSERT INTO "batches" VALUES(6,8,3,'c',1000000000000,NULL,X'9396A97363686564756C656491A16BCDEA6000A97363686564756C6564C096A963616E63656C6C656491AF63616E63656C6C65642773206B6579CDEA6000A0C096A66279206B657991A16CCDEA6000A0C0');
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
INSERT INTO "jobs" VALUES(1,1,1,1000000000002,'');
INSERT INTO "jobs" VALUES(2,2,1,1000000000002,'Boom: x');
INSERT INTO "jobs" VALUES(3,0,1,1000000600002,'Boom: y');
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO "meta" VALUES('boot_id','boot 1');
INSERT INTO "meta" VALUES('drift_ms',0);
INSERT INTO "meta" VALUES('lease_epoch',1000000000);
INSERT INTO "meta" VALUES('offset_ns',999999995000000000);
INSERT INTO "meta" VALUES('source','86f1ee8afd245ec7');
CREATE TABLE outcomes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    number INTEGER NOT NULL, -- of the operation
    outcome TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    lateness_ms INTEGER NOT NULL,
    by_key TEXT,
    result BLOB -- MessagePack
);
INSERT INTO "outcomes" VALUES(1,1,'expired',1000000000000,2,NULL,NULL);
INSERT INTO "outcomes" VALUES(2,2,'expired',1000000000000,2,NULL,NULL);
INSERT INTO "outcomes" VALUES(3,3,'expired',1000000000000,2,NULL,NULL);
INSERT INTO "outcomes" VALUES(4,4,'expired',1000000000000,2,NULL,NULL);
INSERT INTO "outcomes" VALUES(5,5,'expired',1000000000000,2,NULL,NULL);
INSERT INTO "outcomes" VALUES(6,7,'cancelled',1000000000002,0,NULL,NULL);
INSERT INTO "outcomes" VALUES(7,8,'completed',1000000000002,0,'l',NULL);
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
CREATE TABLE replies ( -- to the latest requests of a session, to repeat them
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    reply BLOB NOT NULL, -- its frame
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('outcomes',7);
COMMIT;
PRAGMA user_version=5;
