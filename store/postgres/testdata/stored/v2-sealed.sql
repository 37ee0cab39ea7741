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
CREATE TABLE stored.seal (
    mark bytea NOT NULL
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
INSERT INTO stored.commits VALUES (1, 1, 1, NULL, 1, 0, NULL, NULL, NULL, 0, '\x62617365206f6620746872656164', '\xfd85142cb902f568a483b72e8001fb42', NULL, NULL, '\x03c3932622a834b98ab8601dee4279534fb86eda2b20928f257fac6d792ee4570e7579e8bb185e1f94664be3c6f4a308d89c8eade4b350', NULL, NULL);
INSERT INTO stored.commits VALUES (2, 1, 2, 1, 1, 0, NULL, NULL, NULL, 1, '\x6d6964646c65', '\x8a140befef95e2cd22975b0c6bd6dd62', NULL, NULL, '\x03919f32f39ce2a96456c92d6913480b1a4d2fea534a764458b5f7d26b44475a543c9fb6a0af3227895ff350b753f6eb2187ca0da3b11ae7554d18ffa613f8241c150023d4836bbda7d75edc317b767fba8bdaa29d2ec642cf8ad1df2d92da8ba32a18df2d55d605926ae5d8124defd64dd9f3', '\x033714e7a4888223551c178c3199e3ebdfc0d2327df2c266163ac80efb2328ca39a95f23af07dd27a4d615408a76fcec041125b468b4b8ee2ab82e5ae62604ada4f3ceb76bc5488a29b1988c06cf', NULL);
INSERT INTO stored.commits VALUES (3, 1, 3, 2, 1, 0, NULL, NULL, NULL, 2, '\x6e657874', '\xa1b42c7b6620b5619241648bcf555893', NULL, NULL, '\x034e2a15031d5239f018e5754b3a76feba7630a087a132c168520b00fc7a139eddfb961b1d90812389929b66bc9b10d0a731c1b0e90060465ac7b89f56de89d216e096baaa1acc36ae4fd7057fbba29d6b56859a5c6c982328705803fc498c7874b67d3cd6d705be3657133024081f4945', '\x031d0d6f5ab2c529c091eb9d64bf9dc03591f48cdf6027d83d862d139d51a6cca32dcf80d159d97b12bfbd12856249ba6a44bba2fef1d473d8849797ab9291c29efb6d88db062729cc68b60a', NULL);
INSERT INTO stored.commits VALUES (4, 1, 4, 3, 1, 0, NULL, NULL, NULL, 3, '\x6c61726765', '\x9627f05f2e7e55d22b8d9ad338403be8', NULL, NULL, '\x03e882f24806c9f2c9a7e4f6971cb233347a99a71e152b9878cadbdc30f84e634a88a9d083dbfb84c46cff9f75461c63c31164231cdb9c2e5cf16fbe72b974e5c1aa09ed97886728a562d1125119099b8f057700a02fc6eb1f936437c78ce620446664124311e45416461b26d7051c461ef8', '\x03d03446f0a5d2d50ccf0c708230d9d34b56ba1a7353231c67689068ea262f3ff61bd4637f81d4ec372719361fb9f1b5d8e02d54d9b7af566cc32ff3970063686bddef9c36', NULL);
INSERT INTO stored.commits VALUES (5, 2, 1, NULL, 5, 0, NULL, NULL, NULL, 0, '\x62617365206f66206f74686572', '\x5d171e4a7bf15717902e5cfa1095e6bf', NULL, NULL, '\x03ad2fd75ad4b576a385ad2e4696cb06c333a664e210b5907d1157bb246840b95f3bd327173276a89b897ee45a3bb8d9068e7a5fd1632d', NULL, NULL);
INSERT INTO stored.commits VALUES (6, 2, 2, 5, 5, 0, NULL, NULL, 2, 1, '\x666172', '\xca5f3054569e0c5479d7f79364905a4f', NULL, NULL, '\x03472fb6f24d1ccb0da8a6ee205ecec0ad790224f9c68baa379da326795a234464b97094e93ab55226050901af3acc7ad9470b320133040fff135d0b34b65c290533324f569606959393859c55a059def50841688e33e4af28dea1081577260756c0e80828b70384139e5a30dc03018b', '\x0311b3c6d5dd142a988f2ea36516f396863bb55393da4f0e41bb9e89e699d38c53a0d88b8d778b1ad470d3f946238518d263ed6e5c9839811f7d28ed08bb7cb32f51469882a228257504d0', NULL);
INSERT INTO stored.commits VALUES (7, 2, 3, NULL, NULL, 0, NULL, NULL, 3, NULL, '\x70696e', '\x4dcd80d32f1f89920547150640b151bf', '\x666172', '\x666172', NULL, NULL, NULL);
INSERT INTO stored.links VALUES (2, 2, '\xb039c7cbe757f5e981b938d055b32b47', '\x03c4d6005a01cb0ff041427f75075979ea2f7d8e851eb13ac3366cfe0598717dd7a4f456a9da3fcf01d8e23594f328befc03b989db1ebf9bafdba479afa1e4a3');
INSERT INTO stored.links VALUES (2, 3, '\xd4cb91646c7d91689205b67d7e42c8e8', '\x033fa6887dc6f00042c4f2aca0e3d11e6c19f8f9a341812ecad90f54f636d30e4dbe1c582f479ccaf654b8084abed51ee887ead07f6a7db846e7a218d5dc');
INSERT INTO stored.meta VALUES (65538, 'sgy2ivqr7ondy5bftzwne5cbck');
INSERT INTO stored.objects VALUES ('\xef27bd00d3b850bd7ce7659a8453b62d330f04d23a4db688730aba647db44ea1', 16, 1795762945, '\x03e1dc6fa432d0cdc568fbc7eff0f461d604c6c81970f1404037746a7917bc5128a4dc7972c06f7131b8c8c54178f9bf67600e6ddeacbd1b9781', NULL);
INSERT INTO stored.objects VALUES ('\x8cc51a4e6b61db45c877f344a2e6a9395101c7293ef1148fde6d6ec3ddf6ce4c', 14, 1795762945, '\x03b239918df6d4fab7aeb53ac93612811d7ed3df8b06f4d08f4a224203163e86de78b8a57df7eee43b4f92d819ec676a3b419a5f1e6a9474', NULL);
INSERT INTO stored.objects VALUES ('\xe5fc0126c7278558f7774ee37a3e495a23c57f819621bf427aff9d9634d9618f', 15, 1795762945, '\x0361832aba2811268438df3db66f03177245b21978dfe7e3e640ed503836f6fa8db64fbb772791cd36099ce830a8223a002912c4f14aabb372', NULL);
INSERT INTO stored.objects VALUES ('\xe323324bf6a9dfba793d68eb80ea38f23c34fc696521a8ce08a22199aa1e47ea', 13, 1795762945, '\x03dbdd09d08c040e425240b6b0ed9668eb7b3cec05324f61b2662e5734a18580dcc29922be1661db671e97f664a16fba9ef0735010f50f', NULL);
INSERT INTO stored.operations VALUES (6, '\x6f70', '\x77', '\x03b38922e29b516bdcb971af28a9841ceeabbab8a7df12bcc5eecb501b10bb9e5ccc7aa52d382c2966440209570eb0bc04ab6fab2888ad81d188');
INSERT INTO stored.pins VALUES (3, '\x03f3e2c32d60f087b441730dd2ebe5ee2a916ca3d809a04ce1c50c551b1fe68972fa51249e685304fb73f5cc');
INSERT INTO stored.pins VALUES (6, '\x032ca951f63e6cf87d14748ed99346a4779843931dcf9eefe1e1616fd8ae6e21d1fce1f2db0b25c5c069c9a2');
INSERT INTO stored.seal VALUES ('\x01eeb9f2761800bee29bf26b1ba7e68df98591ac449c9747aef2a0e6a4d076ec9d75a1f5d9ec3f9f88826947320aef16d9');
INSERT INTO stored.terms VALUES (-7968389416772192300, 2);
INSERT INTO stored.terms VALUES (-29369217683568909, 3);
INSERT INTO stored.terms VALUES (5505269059210799257, 4);
INSERT INTO stored.terms VALUES (-3860030549610268778, 6);
INSERT INTO stored.threads OVERRIDING SYSTEM VALUE VALUES (1, '\x746872656164', false, '\x6c61726765', '\x6c61726765', 4, 0, 0, 4, NULL, NULL, NULL, NULL, NULL, NULL, '\x03ec218ec53739919849a5ba24c1b7d288788113ba4b59226669483c7c396657b25839a110f649a1bce5f736089b6e', 1);
INSERT INTO stored.threads OVERRIDING SYSTEM VALUE VALUES (2, '\x6f74686572', false, '\x666172', '\x666172', 3, 0, 0, 7, 3, '\x0356bb63e2522487998cea5adf2e42dbd760df94e7836f3fca8f5c9ce25e163852559c896b40817820289c8ed6b543b80401b47ff10a1f87b65bea184039', NULL, NULL, NULL, NULL, '\x0346f0f7934d67b6565229e3d0f36a3d624d59efa1618693f849c902bd9e53d12ca792c93ed7da50d1b26601bb5295', 1);
INSERT INTO stored.workspaces VALUES ('\x77', '\x34786a6f726374366a6d736464363773726478697435356975376b6972696e74', 0, 0, '\x031289b864b91ee4a0ec09424db86ef9ce3e4ab9bf67808a582510cf42e790edaa228916d1395f8bfde68fbd1a7158b86323bb', '\x03f9543c99643ecf72bdd57099f2fba9b5ff11bc77b2ac7e2f9c45e3ad8def4dcc4895b10b21fc4b59ad8d009389ac');
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
