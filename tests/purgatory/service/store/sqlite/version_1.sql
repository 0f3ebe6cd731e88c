PRAGMA user_version=1;
BEGIN TRANSACTION;
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO "meta" VALUES('source','4f9856c613b74266');
CREATE TABLE operations (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    client TEXT NOT NULL,
    op_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    submitted_ms INTEGER NOT NULL, -- Unix
    deadline_ms INTEGER NOT NULL,
    need INTEGER NOT NULL,
    keys BLOB NOT NULL, -- MessagePack: an array of texts
    payload BLOB -- MessagePack
);
INSERT INTO "operations" VALUES(1,'c','done','pay',1000000000000,1000000001000,1,X'91A16B',X'A961207061796C6F6164');
INSERT INTO "operations" VALUES(2,'c','waits','pay',1000000000000,1000000060000,2,X'93A16BA16CA16D',NULL);
INSERT INTO "operations" VALUES(3,'c','due','',1000000000000,1000000000010,1,X'91A16E',NULL);
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
INSERT INTO "sqlite_sequence" VALUES('operations',7);
INSERT INTO "sqlite_sequence" VALUES('outcomes',1);
COMMIT;
