CREATE SCHEMA purgatory;
CREATE TABLE purgatory.batches (
    first bigint NOT NULL,
    last bigint NOT NULL,
    size bigint NOT NULL,
    client bytea NOT NULL,
    submitted_ms bigint NOT NULL,
    numbers bytea,
    operations bytea NOT NULL,
    remaining bigint NOT NULL
);
CREATE TABLE purgatory.deadlines (
    number bigint NOT NULL,
    deadline_ms bigint NOT NULL
);
CREATE TABLE purgatory.forgotten (
    number bigint NOT NULL
);
CREATE TABLE purgatory.forgotten_outcomes (
    seq bigint NOT NULL
);
CREATE TABLE purgatory.held (
    key bytea NOT NULL,
    number bigint NOT NULL,
    at_ms bigint NOT NULL,
    until_ms bigint NOT NULL,
    units bigint NOT NULL,
    value bytea NOT NULL
);
CREATE TABLE purgatory.jobs (
    seq bigint NOT NULL,
    state bigint NOT NULL,
    attempts bigint NOT NULL,
    at_ms bigint NOT NULL,
    error bytea NOT NULL
);
CREATE TABLE purgatory.lease (
    one boolean DEFAULT true NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    beat bigint DEFAULT 0 NOT NULL,
    commits bigint DEFAULT 0 NOT NULL,
    holder text DEFAULT ''::text NOT NULL,
    address text DEFAULT ''::text NOT NULL,
    handover boolean DEFAULT false NOT NULL,
    clock_ms bigint NOT NULL,
    clock_at timestamp with time zone NOT NULL,
    committed_at timestamp with time zone,
    last_operation bigint DEFAULT 0 NOT NULL,
    last_outcome bigint DEFAULT 0 NOT NULL,
    last_event bigint DEFAULT 0 NOT NULL,
    last_extension bigint DEFAULT 0 NOT NULL,
    last_job bigint DEFAULT 0 NOT NULL,
    CONSTRAINT lease_one_check CHECK (one)
)
WITH (fillfactor='20');
CREATE TABLE purgatory.limits (
    kind bytea NOT NULL,
    paused bigint NOT NULL,
    running bigint NOT NULL,
    per_second double precision NOT NULL
);
CREATE TABLE purgatory.members (
    holder text NOT NULL,
    address text NOT NULL,
    seen timestamp with time zone NOT NULL
)
WITH (fillfactor='20');
CREATE TABLE purgatory.meta (
    key text NOT NULL,
    value bytea NOT NULL
);
CREATE TABLE purgatory.named_leases (
    name bytea NOT NULL,
    holder bytea NOT NULL,
    token bigint NOT NULL,
    until_ms bigint NOT NULL
);
CREATE TABLE purgatory.outcomes (
    first bigint NOT NULL,
    last bigint NOT NULL,
    size bigint NOT NULL,
    seqs bigint[],
    heads bytea NOT NULL,
    bodies bytea NOT NULL,
    remaining bigint NOT NULL
);
CREATE TABLE purgatory.progress (
    number bigint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL
);
CREATE TABLE purgatory.purgatory_version (
    version bigint NOT NULL
);
CREATE TABLE purgatory.queued_events (
    number bigint NOT NULL,
    key bytea NOT NULL,
    at_ms bigint NOT NULL,
    hold_ms bigint NOT NULL,
    failed bigint NOT NULL
);
CREATE TABLE purgatory.queued_extensions (
    number bigint NOT NULL,
    op_id bytea NOT NULL,
    at_ms bigint NOT NULL,
    timeout_ms bigint NOT NULL
);
CREATE TABLE purgatory.queued_jobs (
    number bigint NOT NULL,
    first bigint NOT NULL,
    jobs bytea NOT NULL
);
CREATE TABLE purgatory.remembered (
    place bigint NOT NULL,
    until_ms bigint NOT NULL,
    hash bigint NOT NULL,
    seq bigint NOT NULL,
    status bytea NOT NULL
);
CREATE TABLE purgatory.remembered_shards (
    shard bigint NOT NULL,
    last_place bigint NOT NULL,
    entries bytea NOT NULL
);
CREATE TABLE purgatory.repeats (
    client bytea NOT NULL,
    name bytea NOT NULL,
    next_ms bigint NOT NULL,
    last_ms bigint NOT NULL,
    paused bigint NOT NULL,
    skipped bigint NOT NULL,
    every_ms bigint NOT NULL,
    settings bytea NOT NULL
);
CREATE TABLE purgatory.replies (
    session bytea NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    reply bytea NOT NULL
);
CREATE TABLE purgatory.results (
    seq bigint NOT NULL,
    result bytea NOT NULL
);
CREATE TABLE purgatory.spreads (
    number bigint NOT NULL,
    key bytea NOT NULL,
    at_ms bigint NOT NULL,
    failed bigint NOT NULL,
    last bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    ended bigint NOT NULL,
    session bytea NOT NULL,
    seq bigint NOT NULL,
    place bigint NOT NULL,
    counts bytea NOT NULL,
    value bytea NOT NULL
);
INSERT INTO purgatory.batches VALUES (1, 6, 6, '\x63', 1000000000000, NULL, '\x9696a4646f6e6591a4646f6e65cd03e800a0c096a46465616491a464656164cd03e800a0c096a87265747279696e6791a87265747279696e67cd03e800a0c098a772756e6e696e6791a772756e6e696e67cd03e800a0c00094ce05265c0091ab637573746f6d65723a343200c096a5726561647991a57265616479cd03e800a46d61696cc096a97363686564756c656491a16bcdea6000a0c0', 6);
INSERT INTO purgatory.jobs VALUES (1, 1, 1, 1000000001001, '\x');
INSERT INTO purgatory.jobs VALUES (2, 2, 2, 1000000001001, '\x426f6f6d3a207a');
INSERT INTO purgatory.jobs VALUES (3, 0, 1, 1000000601001, '\x426f6f6d3a2079');
INSERT INTO purgatory.lease VALUES (true, 1, 7, 6, 'holder-8334-1', 'tcp://test:1', false, 1000000, '2026-11-27 02:42:10.583193+00', '2026-11-27 02:42:10.583217+00', 6, 5, 0, 0, 0);
INSERT INTO purgatory.limits VALUES ('\x6d61696c', 0, 3, 0);
INSERT INTO purgatory.meta VALUES ('lease_epoch', '\xce3b9aca00');
INSERT INTO purgatory.meta VALUES ('source', '\xb039333831303563386366623731343339');
INSERT INTO purgatory.outcomes VALUES (1, 5, 5, NULL, '\x94950102030405a765787069726564cf000000e8d4a513e801', '\x92c0c0', 5);
INSERT INTO purgatory.purgatory_version VALUES (1);
INSERT INTO purgatory.results VALUES (1, '\xa23432');
ALTER TABLE ONLY purgatory.batches
    ADD CONSTRAINT batches_pkey PRIMARY KEY (first);
ALTER TABLE ONLY purgatory.deadlines
    ADD CONSTRAINT deadlines_pkey PRIMARY KEY (number);
ALTER TABLE ONLY purgatory.forgotten_outcomes
    ADD CONSTRAINT forgotten_outcomes_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY purgatory.forgotten
    ADD CONSTRAINT forgotten_pkey PRIMARY KEY (number);
ALTER TABLE ONLY purgatory.held
    ADD CONSTRAINT held_pkey PRIMARY KEY (key);
ALTER TABLE ONLY purgatory.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY purgatory.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (one);
ALTER TABLE ONLY purgatory.limits
    ADD CONSTRAINT limits_pkey PRIMARY KEY (kind);
ALTER TABLE ONLY purgatory.members
    ADD CONSTRAINT members_pkey PRIMARY KEY (holder);
ALTER TABLE ONLY purgatory.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (key);
ALTER TABLE ONLY purgatory.named_leases
    ADD CONSTRAINT named_leases_pkey PRIMARY KEY (name);
ALTER TABLE ONLY purgatory.outcomes
    ADD CONSTRAINT outcomes_pkey PRIMARY KEY (first);
ALTER TABLE ONLY purgatory.progress
    ADD CONSTRAINT progress_pkey PRIMARY KEY (number, key);
ALTER TABLE ONLY purgatory.queued_events
    ADD CONSTRAINT queued_events_pkey PRIMARY KEY (number);
ALTER TABLE ONLY purgatory.queued_extensions
    ADD CONSTRAINT queued_extensions_pkey PRIMARY KEY (number);
ALTER TABLE ONLY purgatory.queued_jobs
    ADD CONSTRAINT queued_jobs_pkey PRIMARY KEY (number);
ALTER TABLE ONLY purgatory.remembered
    ADD CONSTRAINT remembered_pkey PRIMARY KEY (place);
ALTER TABLE ONLY purgatory.remembered_shards
    ADD CONSTRAINT remembered_shards_pkey PRIMARY KEY (shard);
ALTER TABLE ONLY purgatory.repeats
    ADD CONSTRAINT repeats_pkey PRIMARY KEY (client, name);
ALTER TABLE ONLY purgatory.replies
    ADD CONSTRAINT replies_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY purgatory.results
    ADD CONSTRAINT results_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY purgatory.spreads
    ADD CONSTRAINT spreads_pkey PRIMARY KEY (number);
CREATE INDEX remembered_until ON purgatory.remembered USING btree (until_ms);
