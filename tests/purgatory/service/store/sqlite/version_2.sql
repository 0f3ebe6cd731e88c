PRAGMA user_version=2;
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
INSERT INTO "batches" VALUES(1,3,3,'c',1000000000000,NULL,X'9396A4646F6E6591A16BCD03E801A3706179A961207061796C6F616496A5776169747393A16BA16CA16DCDEA6002A3706179C096A364756591A16E0A01A0C0');
CREATE TABLE forgotten (number INTEGER PRIMARY KEY);
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO "meta" VALUES('source','4f9856c613b74266');
CREATE TABLE outcomes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    number INTEGER NOT NULL, -- of the operation
    outcome TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    lateness_ms INTEGER NOT NULL,
    by_key TEXT,
    result BLOB -- MessagePack
);
INSERT INTO "outcomes" VALUES(1,1,'completed',1000000000005,0,'k',X'A176');
CREATE TABLE progress ( -- of operations that need several keys
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL, -- MessagePack
    PRIMARY KEY (number, key)
) WITHOUT ROWID;
INSERT INTO "progress" VALUES(2,'l',X'07');
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('outcomes',1);
COMMIT;
