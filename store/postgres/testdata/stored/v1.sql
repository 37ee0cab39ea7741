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
    record bytea NOT NULL
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
INSERT INTO stored.meta VALUES (1, 'ajgdwlkmywxxgwootmwhumzcuq');
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
CREATE INDEX threads_whole ON stored.threads USING btree (whole) WHERE (whole IS NOT NULL);
CREATE INDEX threads_workspace ON stored.threads USING btree (workspace) WHERE (workspace IS NOT NULL);
CREATE INDEX workspaces_inode ON stored.workspaces USING btree (inode, device);
CREATE INDEX workspaces_path ON stored.workspaces USING btree (sha256(path));
