package sqlite

// schemaVersion is the user_version of a database this package writes. Older ones
// are upgraded when they are opened, newer ones refused.
const schemaVersion = 2

// applicationID marks the database file as segno's: "sgno".
const applicationID = 0x73676e6f

// pageSize is the size of the pages of a new database; a database keeps the size that it was
// made with. A step of 2 KB takes a row of about 1,100 bytes: three of them leave a quarter of
// a page of 4 KB empty. In small pages such a row is a few bytes on a leaf and one overflow
// page that it fills. A row of 500 to 900 bytes is the worst case: it has a page to itself. A
// commit writes each page that it changes to the log, six or more, so small pages also make
// the log smaller.
const pageSize = 1 << 10

// schema makes an empty database of version 1. Rows refer to each other by n, not by id: ids
// are up to a kilobyte long.
//
// commits holds every commit. One that is a node of the tree has a line and a
// depth, the number of its ancestors. A line is a run of nodes, each the only
// continuation of the one before; its number is the n of its first node, whose
// parent is where the line was born. So a line costs nothing but its nodes, and
// the ancestors of a node are found segment by segment: see line.go. high, head,
// tip, epoch and link are the commit's result, for the writer that asks again.
//
// terms finds checkpoints by what they pin. A term is the first eight bytes of a
// hash; a hit is compared with what was asked for.
const schema = `
CREATE TABLE threads (
	n INTEGER PRIMARY KEY,
	id TEXT NOT NULL UNIQUE,
	hidden INTEGER NOT NULL,
	head INTEGER NOT NULL, tip INTEGER NOT NULL,
	seq INTEGER NOT NULL, turn INTEGER NOT NULL, epoch INTEGER NOT NULL,
	link INTEGER NOT NULL,
	changed INTEGER NOT NULL,
	workspace TEXT NOT NULL,
	owner TEXT NOT NULL, expires INTEGER NOT NULL,
	record BLOB NOT NULL
);
CREATE INDEX threads_workspace ON threads (workspace);

CREATE TABLE commits (
	n INTEGER PRIMARY KEY,
	id TEXT NOT NULL UNIQUE,
	thread INTEGER NOT NULL, seq INTEGER NOT NULL,
	parent INTEGER NOT NULL, line INTEGER, depth INTEGER, turn INTEGER NOT NULL,
	high INTEGER NOT NULL, head INTEGER NOT NULL, tip INTEGER NOT NULL,
	epoch INTEGER NOT NULL, link INTEGER NOT NULL,
	digest BLOB NOT NULL,
	checkpoint BLOB,
	entries BLOB
);
CREATE UNIQUE INDEX commits_seq ON commits (thread, seq);
CREATE UNIQUE INDEX commits_line ON commits (line, depth) WHERE line IS NOT NULL;

CREATE TABLE terms (term INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (term, n)) WITHOUT ROWID;
CREATE TABLE pins (n INTEGER PRIMARY KEY, name TEXT NOT NULL);

CREATE TABLE links (n INTEGER PRIMARY KEY, thread INTEGER NOT NULL, session TEXT NOT NULL, record BLOB NOT NULL);
CREATE INDEX links_thread ON links (thread);
CREATE INDEX links_session ON links (session);

CREATE TABLE workspaces (
	id TEXT NOT NULL UNIQUE,
	path TEXT, device INTEGER, inode INTEGER,
	record BLOB,
	state BLOB
);
CREATE INDEX workspaces_path ON workspaces (path);
CREATE INDEX workspaces_inode ON workspaces (inode, device);

CREATE TABLE operations (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, workspace TEXT NOT NULL, record BLOB NOT NULL);
CREATE INDEX operations_workspace ON operations (workspace);

CREATE TABLE packs (n INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, born INTEGER NOT NULL, objects INTEGER NOT NULL);
CREATE TABLE objects (
	name BLOB PRIMARY KEY,
	size INTEGER NOT NULL,
	born INTEGER NOT NULL,
	pack INTEGER NOT NULL,
	at INTEGER NOT NULL,
	length INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE small (n INTEGER PRIMARY KEY, data BLOB NOT NULL);
`

// phasesSchema is what version 2 adds: for each thread that is not deleted the phase of its
// newest turn, a [segno.Phase].
const phasesSchema = `
CREATE TABLE phases (phase INTEGER NOT NULL, id TEXT NOT NULL, thread INTEGER NOT NULL, PRIMARY KEY (phase, id)) WITHOUT ROWID;
`

// schemaOf is the schema of a version.
func schemaOf(version int) string {
	if version == 1 {
		return schema
	}
	return schema + phasesSchema
}
