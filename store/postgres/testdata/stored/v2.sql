CREATE SCHEMA stored;
CREATE TABLE stored.bodies (
    name text NOT NULL,
    born bigint NOT NULL,
    data bytea NOT NULL
);
ALTER TABLE ONLY stored.bodies ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE SEQUENCE stored.commit_numbers
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE stored.commits (
    n bigint NOT NULL,
    thread bigint NOT NULL,
    seq bigint NOT NULL,
    parent bigint,
    line bigint,
    turn bigint NOT NULL,
    high bigint,
    epoch bigint,
    link bigint,
    depth integer,
    id bytea NOT NULL,
    digest bytea NOT NULL,
    head bytea,
    tip bytea,
    checkpoint bytea,
    entries bytea,
    body text
)
WITH (toast_tuple_target='4080');
ALTER TABLE ONLY stored.commits ALTER COLUMN checkpoint SET STORAGE EXTERNAL;
ALTER TABLE ONLY stored.commits ALTER COLUMN entries SET STORAGE EXTERNAL;
CREATE TABLE stored.links (
    thread bigint NOT NULL,
    seq bigint NOT NULL,
    session bytea NOT NULL,
    record bytea NOT NULL
);
CREATE TABLE stored.meta (
    version integer NOT NULL,
    store text NOT NULL
);
CREATE TABLE stored.objects (
    name bytea NOT NULL,
    size bigint NOT NULL,
    born bigint NOT NULL,
    data bytea,
    body text
);
ALTER TABLE ONLY stored.objects ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE stored.operations (
    n bigint NOT NULL,
    id bytea NOT NULL,
    workspace bytea NOT NULL,
    record bytea NOT NULL
);
CREATE TABLE stored.pins (
    n bigint NOT NULL,
    name bytea NOT NULL
);
CREATE TABLE stored.terms (
    term bigint NOT NULL,
    n bigint NOT NULL
);
CREATE TABLE stored.threads (
    n bigint NOT NULL,
    id bytea NOT NULL,
    hidden boolean DEFAULT false NOT NULL,
    head bytea NOT NULL,
    tip bytea NOT NULL,
    seq bigint NOT NULL,
    turn bigint NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    changed bigint NOT NULL,
    link bigint,
    session bytea,
    owner bytea,
    expires bigint,
    workspace bytea,
    whole bytea,
    record bytea NOT NULL,
    phase smallint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');
ALTER TABLE stored.threads ALTER COLUMN n ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stored.threads_n_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stored.workspaces (
    id bytea NOT NULL,
    path bytea,
    device bigint,
    inode bigint,
    record bytea,
    state bytea
);
INSERT INTO stored.commits VALUES (1, 1, 1, NULL, 1, 0, NULL, NULL, NULL, 0, '\x62617365206f6620746872656164', '\xee9e9c2444989badc3457ced777083c4', NULL, NULL, '\x000cfd036b71827d0a0462617365', NULL, NULL);
INSERT INTO stored.commits VALUES (2, 1, 2, 1, 1, 0, NULL, NULL, NULL, 1, '\x6d6964646c65', '\x67464a76358b15c65304ac722fe0e1af', NULL, NULL, '\x0048f5030b68b0580a04737465703a0d6b6579206f66206d6964646c658a012a0a06746573742f3112200c5cc467ce77a0b9342cdf930ffbe2e702c4186ea6dca01452503cb1a768ec99', '\x0023f5033aa74d400a1b0a076d6573736167653a10227361696420696e206d6964646c6522', NULL);
INSERT INTO stored.commits VALUES (3, 1, 3, 2, 1, 0, NULL, NULL, NULL, 2, '\x6e657874', '\x1c66e7cec77cf8161f13eaa2a37406ee', NULL, NULL, '\x0046f50330839c850a04737465703a0b6b6579206f66206e6578748a012a0a06746573742f311220bc5e4f9d96982a8f9495bd350240571dd19e485f27a2fec1282a0c431db8ec03', '\x0021f503e8c39af40a190a076d6573736167653a0e227361696420696e206e65787422', NULL);
INSERT INTO stored.commits VALUES (4, 1, 4, 3, 1, 0, NULL, NULL, NULL, 3, '\x6c61726765', '\xef6191cc5bc0f9c50f5d82dba46feb95', NULL, NULL, '\x0047f503646443d80a04737465703a0c6b6579206f66206c617267658a012a0a06746573742f311220b6fc2ee44e8ab1735d2b66300e81facd3a5ee79ce825cc34d3195afc4bd448d7', '\x001af503675eba5f0a120a076d6573736167653a07226c6172676522', NULL);
INSERT INTO stored.commits VALUES (5, 2, 1, NULL, 5, 0, NULL, NULL, NULL, 0, '\x62617365206f66206f74686572', '\x06e2f0bc3b9e775d90345475a1310872', NULL, NULL, '\x000cfd036b71827d0a0462617365', NULL, NULL);
INSERT INTO stored.commits VALUES (6, 2, 2, 5, 5, 0, NULL, NULL, 2, 1, '\x666172', '\xa51d21b10bac203cd91785fa2c2d4ba3', NULL, NULL, '\x0045f50320f60f060a04737465703a0a6b6579206f66206661728a012a0a06746573742f3112208de64a78ff67619f04b490f342983b280e4bc8c28fbfe9057d28c7eafe43a034', '\x0020f50380f9e6cc0a180a076d6573736167653a0d227361696420696e2066617222', NULL);
INSERT INTO stored.commits VALUES (7, 2, 3, NULL, NULL, 0, NULL, NULL, 3, NULL, '\x70696e', '\xf5f9a4938d17ed16b990be701cc74abb', '\x666172', '\x666172', NULL, NULL, NULL);
INSERT INTO stored.links VALUES (2, 2, '\xae448ac86c4e8e4dec645729708ef418', '\xfd03bc31ded40a06636c617564651207616e6f74686572');
INSERT INTO stored.links VALUES (2, 3, '\xb1e99324505bd32da0e1f85dcf5e19a0', '\xfd03fe6258760a06636c6175646512057468697264');
INSERT INTO stored.meta VALUES (2, 'jpt6pfvgp3xmlqpi2a2e5oig3h');
INSERT INTO stored.objects VALUES ('\x0c5cc467ce77a0b9342cdf930ffbe2e702c4186ea6dca01452503cb1a768ec99', 16, 1795762944, '\x006f626a656374206f66206d6964646c65', NULL);
INSERT INTO stored.objects VALUES ('\xbc5e4f9d96982a8f9495bd350240571dd19e485f27a2fec1282a0c431db8ec03', 14, 1795762944, '\x006f626a656374206f66206e657874', NULL);
INSERT INTO stored.objects VALUES ('\xb6fc2ee44e8ab1735d2b66300e81facd3a5ee79ce825cc34d3195afc4bd448d7', 15, 1795762944, '\x006f626a656374206f66206c61726765', NULL);
INSERT INTO stored.objects VALUES ('\x8de64a78ff67619f04b490f342983b280e4bc8c28fbfe9057d28c7eafe43a034', 13, 1795762944, '\x006f626a656374206f6620666172', NULL);
INSERT INTO stored.operations VALUES (6, '\x6f70', '\x77', '\xfd03738754e20a056f746865722a003200');
INSERT INTO stored.pins VALUES (3, '\x6f6e65');
INSERT INTO stored.pins VALUES (6, '\x74776f');
INSERT INTO stored.terms VALUES (-3255537020819979825, 2);
INSERT INTO stored.terms VALUES (6184501417019209355, 3);
INSERT INTO stored.terms VALUES (4782001517589546265, 4);
INSERT INTO stored.terms VALUES (-2466567117166934091, 6);
INSERT INTO stored.threads OVERRIDING SYSTEM VALUE VALUES (1, '\x746872656164', false, '\x6c61726765', '\x6c61726765', 4, 0, 0, 4, NULL, NULL, NULL, NULL, NULL, NULL, '\xfd034b909766', 1);
INSERT INTO stored.threads OVERRIDING SYSTEM VALUE VALUES (2, '\x6f74686572', false, '\x666172', '\x666172', 3, 0, 0, 7, 3, '\xfd03fe6258760a06636c6175646512057468697264', NULL, NULL, NULL, NULL, '\xfd034b909766', 1);
INSERT INTO stored.workspaces VALUES ('\x77', '\x2f77', 0, 0, '\xfd03295be25112022f77', '\xfd034b909766');
SELECT pg_catalog.setval('stored.commit_numbers', 7, true);
SELECT pg_catalog.setval('stored.threads_n_seq', 2, true);
ALTER TABLE ONLY stored.bodies
    ADD CONSTRAINT bodies_pkey PRIMARY KEY (name);
ALTER TABLE ONLY stored.commits
    ADD CONSTRAINT commits_id_key UNIQUE (id);
ALTER TABLE ONLY stored.commits
    ADD CONSTRAINT commits_pkey PRIMARY KEY (n);
ALTER TABLE ONLY stored.links
    ADD CONSTRAINT links_pkey PRIMARY KEY (thread, seq);
ALTER TABLE ONLY stored.objects
    ADD CONSTRAINT objects_pkey PRIMARY KEY (name);
ALTER TABLE ONLY stored.operations
    ADD CONSTRAINT operations_id_key UNIQUE (id);
ALTER TABLE ONLY stored.operations
    ADD CONSTRAINT operations_pkey PRIMARY KEY (n);
ALTER TABLE ONLY stored.pins
    ADD CONSTRAINT pins_pkey PRIMARY KEY (n);
ALTER TABLE ONLY stored.terms
    ADD CONSTRAINT terms_pkey PRIMARY KEY (term, n);
ALTER TABLE ONLY stored.threads
    ADD CONSTRAINT threads_id_key UNIQUE (id);
ALTER TABLE ONLY stored.threads
    ADD CONSTRAINT threads_pkey PRIMARY KEY (n);
ALTER TABLE ONLY stored.workspaces
    ADD CONSTRAINT workspaces_pkey PRIMARY KEY (id);
CREATE INDEX commits_body ON stored.commits USING btree (body) WHERE (body IS NOT NULL);
CREATE UNIQUE INDEX commits_line ON stored.commits USING btree (line, depth) WHERE (line IS NOT NULL);
CREATE UNIQUE INDEX commits_seq ON stored.commits USING btree (thread, seq);
CREATE INDEX links_session ON stored.links USING btree (session);
CREATE INDEX objects_body ON stored.objects USING btree (body) WHERE (body IS NOT NULL);
CREATE INDEX operations_workspace ON stored.operations USING btree (workspace, n);
CREATE INDEX threads_phase ON stored.threads USING btree (phase, id) WHERE (NOT hidden);
CREATE INDEX threads_whole ON stored.threads USING btree (whole) WHERE (whole IS NOT NULL);
CREATE INDEX threads_workspace ON stored.threads USING btree (workspace) WHERE (workspace IS NOT NULL);
CREATE INDEX workspaces_inode ON stored.workspaces USING btree (inode, device);
CREATE INDEX workspaces_path ON stored.workspaces USING btree (sha256(path));
