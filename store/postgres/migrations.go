package postgres

import "strings"

// schemaVersion is the version of the schema that this package writes. Open upgrades older versions and
// refuses newer ones.
const schemaVersion = 2

// migration is the step from one version of the schema to the next. Its statements contain these marks: "{}" is the
// schema's name and a dot. "{tenant}" is "tenant, " in a store with tenants, and otherwise nothing. In the same way,
// "{tenant column}" is the definition of that column.
type migration struct {
	up     []string
	tables []string // the tables that up creates; those of a store with tenants have policies
	// down undoes up. It is empty if it would lose data; then keeps is the reason.
	down  []string
	keeps string
}

// migrations contains the step from each version to the next.
//
// Ids are bytes, because text cannot contain NUL. Rows refer to each other by n, with one exception: a single
// read of a thread's row must return the whole head, so its head and tip are ids, and session is the record
// of the newest link.
//
// commits contains every commit. A commit that is a node of the tree has a line and a depth, which is the
// number of its ancestors. A line is a sequence of nodes of one thread. Each is the only child on that line
// of the node before it. The number of a line is the n of its first node. The parent of that node is on
// another line. A line thus needs no row, and a query finds the ancestors of a node segment by segment: see
// line.go. turn, high, epoch, link, head and tip are the commit's result, for a repeated commit. NULL stands
// for their usual values: high is turn, epoch is 0, head and tip are the commit itself.
//
// terms is the index of checkpoints by session, key and other values. A term is the first eight bytes of a
// hash; the store compares each hit with the query. whole is the hash of the parent thread. whole, session
// and workspace have sixteen bytes.
//
// phase is the phase of the thread's newest turn, a [segno.Phase]; 0 means unknown. It seldom changes, so its
// index seldom changes, too. The store finds a phase again if the column is lost.
//
// The values are already compressed, so the server must not compress them again: EXTERNAL. A step of some
// kilobytes is one row without an overflow row: toast_tuple_target.
//
// Each commit updates the row of its thread. phase is the only indexed column that a commit can change. If it
// keeps its value and the page has room, PostgreSQL writes the new version of the row to the same page and adds
// no index entries (a HOT update). fillfactor reserves that room, so most updates are HOT.
var migrations = [schemaVersion]migration{{
	up: []string{`CREATE SEQUENCE {}commit_numbers`,
		`CREATE TABLE {}threads (
	n bigint GENERATED ALWAYS AS IDENTITY,
	id bytea NOT NULL,
	hidden bool NOT NULL DEFAULT false,
	head bytea NOT NULL, tip bytea NOT NULL,
	seq bigint NOT NULL, turn bigint NOT NULL, epoch bigint NOT NULL DEFAULT 0,
	changed bigint NOT NULL,
	link bigint, session bytea,
	owner bytea, expires bigint,
	workspace bytea, whole bytea,
	record bytea NOT NULL, {tenant column}
	PRIMARY KEY ({tenant}n), UNIQUE ({tenant}id)
) WITH (fillfactor = 50)`,
		`CREATE INDEX threads_workspace ON {}threads ({tenant}workspace) WHERE workspace IS NOT NULL`,
		`CREATE INDEX threads_whole ON {}threads ({tenant}whole) WHERE whole IS NOT NULL`,
		`CREATE TABLE {}commits (
	n bigint,
	thread bigint NOT NULL, seq bigint NOT NULL,
	parent bigint, line bigint, turn bigint NOT NULL,
	high bigint, epoch bigint, link bigint,
	depth integer, {tenant column}
	id bytea NOT NULL,
	digest bytea NOT NULL,
	head bytea, tip bytea,
	checkpoint bytea,
	entries bytea,
	body text,
	PRIMARY KEY ({tenant}n), UNIQUE ({tenant}id)
) WITH (toast_tuple_target = 4080)`,
		`ALTER TABLE {}commits ALTER checkpoint SET STORAGE EXTERNAL, ALTER entries SET STORAGE EXTERNAL`,
		`CREATE UNIQUE INDEX commits_seq ON {}commits ({tenant}thread, seq)`,
		`CREATE UNIQUE INDEX commits_line ON {}commits ({tenant}line, depth) WHERE line IS NOT NULL`,
		`CREATE INDEX commits_body ON {}commits ({tenant}body) WHERE body IS NOT NULL`,
		`CREATE TABLE {}terms (term bigint NOT NULL, n bigint NOT NULL, {tenant column} PRIMARY KEY ({tenant}term, n))`,
		`CREATE TABLE {}pins (n bigint, name bytea NOT NULL, {tenant column} PRIMARY KEY ({tenant}n))`,
		`CREATE TABLE {}links (
	thread bigint NOT NULL, seq bigint NOT NULL, {tenant column}
	session bytea NOT NULL,
	record bytea NOT NULL,
	PRIMARY KEY ({tenant}thread, seq)
)`,
		`CREATE INDEX links_session ON {}links ({tenant}session)`,
		`CREATE TABLE {}workspaces (
	id bytea,
	path bytea, device bigint, inode bigint,
	record bytea,
	state bytea, {tenant column}
	PRIMARY KEY ({tenant}id)
)`,
		`CREATE INDEX workspaces_path ON {}workspaces ({tenant}sha256(path))`,
		`CREATE INDEX workspaces_inode ON {}workspaces ({tenant}inode, device)`,
		`CREATE TABLE {}operations (n bigint, id bytea NOT NULL, workspace bytea NOT NULL, record bytea NOT NULL, {tenant column}
	PRIMARY KEY ({tenant}n), UNIQUE ({tenant}id))`,
		`CREATE INDEX operations_workspace ON {}operations ({tenant}workspace, n)`,
		`CREATE TABLE {}objects (
	name bytea,
	size bigint NOT NULL,
	born bigint NOT NULL, {tenant column}
	data bytea,
	body text,
	PRIMARY KEY ({tenant}name)
)`,
		`ALTER TABLE {}objects ALTER data SET STORAGE EXTERNAL`,
		`CREATE INDEX objects_body ON {}objects ({tenant}body) WHERE body IS NOT NULL`,
		`CREATE TABLE {}bodies (name text, born bigint NOT NULL, {tenant column} data bytea NOT NULL, PRIMARY KEY ({tenant}name))`,
		`ALTER TABLE {}bodies ALTER data SET STORAGE EXTERNAL`},
	tables: []string{"threads", "commits", "terms", "pins", "links", "workspaces", "operations", "objects", "bodies"},
	keeps:  "it would delete the threads",
}, {
	up: []string{`ALTER TABLE {}threads ADD COLUMN phase smallint NOT NULL DEFAULT 0`,
		`CREATE INDEX threads_phase ON {}threads ({tenant}phase, id) WHERE NOT hidden`},
	down: []string{`ALTER TABLE {}threads DROP COLUMN phase`}, // PostgreSQL drops its index, too
}}

// statements returns statements of a migration for this store.
func (s *Store) statements(all []string) []string {
	column, first := "", ""
	if s.hasTenants {
		column, first = "tenant integer NOT NULL DEFAULT "+tenantNumber+",", "tenant, "
	}
	marks := strings.NewReplacer("{tenant column}", column, "{tenant}", first)
	out := make([]string, len(all))
	for i, x := range all {
		out[i] = marks.Replace(x)
	}
	return out
}

// upgrade returns the statements of a migration to the next version.
func (s *Store) upgrade(m *migration) []string {
	all := s.statements(m.up)
	if s.hasTenants {
		for _, table := range m.tables {
			all = append(all, tenantPolicy(table, "tenant")...)
		}
	}
	return all
}
