package postgres

import (
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
)

// statement builds the single statement of a commit. Its parts read the database as it was when the
// statement began, except for the row of the thread: the statement first locks that row and compares its
// newest version. If many writers expect one head, only one commit is therefore applied. If another
// transaction meanwhile adds a commit with the same id or another child of the parent, a unique index
// refuses the statement, and it is executed again.
//
// The statement returns no row if the commit is not applied; [Store.explain] determines the reason. The
// conditions are those of [ledger.Admit]; internal/testing/ledgertest tests both with the same cases.
type statement struct {
	text       strings.Builder
	args       []any
	conditions []string
}

// arg adds an argument and returns its placeholder.
func (b *statement) arg(kind string, value any) string {
	b.args = append(b.args, value)
	return fmt.Sprintf("$%d::%s", len(b.args), kind)
}

func (b *statement) add(format string, args ...any) { fmt.Fprintf(&b.text, format, args...) }

// require adds a condition of the commit.
func (b *statement) require(format string, args ...any) {
	b.conditions = append(b.conditions, fmt.Sprintf(format, args...))
}

func (s *Store) statement(w *encodedCommit) (string, []any) {
	b := new(statement)
	id := b.arg("bytea", []byte(w.ID))
	b.require("NOT EXISTS (SELECT FROM {}commits WHERE id = %s)", id)
	b.add("WITH parent AS MATERIALIZED (SELECT n, thread, line, depth, turn FROM {}commits WHERE id = %s AND line IS NOT NULL)",
		b.arg("bytea", []byte(w.Parent)))
	if w.Parent != "" {
		b.require("EXISTS (SELECT FROM parent)")
	}
	if len(w.needs) > 0 {
		b.require("(SELECT count(*) FROM {}objects WHERE name = ANY(%[1]s)) = cardinality(%[1]s)", b.arg("bytea[]", w.needs))
	}
	if w.Pin != nil {
		b.add(", pinned AS MATERIALIZED (SELECT n FROM {}commits WHERE id = %s AND checkpoint IS NOT NULL)",
			b.arg("bytea", []byte(w.Pin.Checkpoint)))
		b.require("EXISTS (SELECT FROM pinned)")
	}
	if w.Operation != nil {
		b.require("NOT EXISTS (SELECT FROM {}operations WHERE id = %s)", b.arg("bytea", []byte(w.Operation.ID)))
	}
	head, tip := b.pointers(w, id)
	if w.Create != nil {
		b.createThread(w, head, tip)
	} else {
		b.updateThread(w, head, tip)
	}
	b.insertCommit(w, id)
	b.insertRecords(w)
	b.insertObjects(w, s.options.now().Unix())
	b.add(" SELECT seq, turn, epoch, head, tip, session FROM thread")
	return s.sql(b.text.String()), b.args
}

// pointers returns the new head and tip, or "" for those that do not change.
func (b *statement) pointers(w *encodedCommit, id string) (head, tip string) {
	if w.Move == nil {
		if w.IsNode() {
			return id, id
		}
		return "", ""
	}
	target := func(to segno.CommitID) string {
		if to == segno.Self {
			return id
		}
		mark := b.arg("bytea", []byte(to))
		b.require("EXISTS (SELECT FROM {}commits WHERE id = %s AND line IS NOT NULL)", mark)
		return mark
	}
	return target(w.Move.Head), target(w.Move.Tip)
}

const returning = " RETURNING n, seq, turn, epoch, head, tip, session, link, changed)"

// updateThread locks the thread's row, compares its epoch and its head, and sets its new head.
func (b *statement) updateThread(w *encodedCommit, head, tip string) {
	b.add(", thread AS (UPDATE {}threads SET seq = seq + 1, changed = nextval('{}commit_numbers')")
	if head != "" {
		b.add(", head = %s, tip = %s", head, tip)
	}
	if w.Checkpoint != nil {
		b.add(", turn = greatest(turn, %s)", b.arg("bigint", w.Checkpoint.Turn))
	}
	if next := nextPhases(&w.Commit.Commit); next != [...]int16{0, 1, 2, 3} {
		b.add(", phase = (%s)[phase + 1]", b.arg("smallint[]", next[:]))
	}
	if w.Link != nil && !w.Link.Detached {
		b.add(", link = seq + 1, session = %s", b.arg("bytea", w.headLink))
	}
	b.require("id = %s AND NOT hidden AND epoch <= %s AND head = %s", b.arg("bytea", []byte(w.Thread)),
		b.arg("bigint", int64(w.Epoch)), b.arg("bytea", []byte(w.Expect)))
	b.add(" WHERE %s"+returning, strings.Join(b.conditions, " AND "))
}

// createThread inserts the thread's row unless a row with its id exists.
func (b *statement) createThread(w *encodedCommit, head, tip string) {
	if head == "" {
		head, tip = "''::bytea", "''::bytea"
	}
	turn := "coalesce((SELECT turn FROM parent), 0)"
	if w.Checkpoint != nil {
		turn = fmt.Sprintf("greatest(%s, %s)", turn, b.arg("bigint", w.Checkpoint.Turn))
	}
	link, session := "NULL::bigint", "NULL::bytea"
	if w.Link != nil && !w.Link.Detached {
		link, session = "1::bigint", b.arg("bytea", w.headLink)
	}
	b.add(", thread AS (INSERT INTO {}threads (id, head, tip, seq, turn, changed, link, session, workspace, whole, record, phase)"+
		" SELECT %s, %s, %s, 1, %s, nextval('{}commit_numbers'), %s, %s, %s, %s, %s, %s WHERE %s ON CONFLICT (id) DO NOTHING"+returning,
		b.arg("bytea", []byte(w.Thread)), head, tip, turn, link, session,
		b.arg("bytea", hashOrNull(string(w.Create.Workspace))), b.arg("bytea", hashOrNull(string(w.Create.ParentThread))),
		b.arg("bytea", w.Encoded.Thread),
		b.arg("smallint", nextPhases(&w.Commit.Commit)[segno.PhaseUnknown]), strings.Join(b.conditions, " AND "))
}

// nextPhases returns the phase of the thread after a commit, for each phase before it.
func nextPhases(c *segno.Commit) (next [4]int16) {
	for before := range next {
		next[before] = int16(ledger.NextPhase(segno.Phase(before), c))
	}
	return next
}

// insertCommit adds the commit's row and its terms. A node continues the line of its parent if the parent is
// the last node of that line and belongs to the same thread. Otherwise the node starts a new line.
func (b *statement) insertCommit(w *encodedCommit, id string) {
	line, depth := "NULL::bigint", "NULL::integer"
	if w.IsNode() {
		line = "CASE WHEN p.thread = t.n AND NOT EXISTS (SELECT FROM {}commits c WHERE c.line = p.line AND c.depth = p.depth + 1) THEN p.line ELSE t.changed END"
		depth = "coalesce(p.depth + 1, 0)"
	}
	turn := "coalesce(p.turn, 0)"
	if w.Checkpoint != nil {
		turn = b.arg("bigint", w.Checkpoint.Turn)
	}
	b.add(", made AS (INSERT INTO {}commits (n, id, thread, seq, parent, line, depth, turn, high, epoch, link, head, tip, digest, checkpoint, entries, body)"+
		" SELECT t.changed, %[1]s, t.n, t.seq, p.n, %[2]s, %[3]s, %[4]s, nullif(t.turn, %[4]s), nullif(t.epoch, 0), t.link,"+
		" nullif(t.head, %[1]s), nullif(t.tip, %[1]s), %[5]s, %[6]s, %[7]s, nullif(%[8]s, '')"+
		" FROM thread t LEFT JOIN parent p ON true)",
		id, line, depth, turn, b.arg("bytea", w.Digest), b.arg("bytea", w.Encoded.Checkpoint), b.arg("bytea", w.Encoded.Entries),
		b.arg("text", w.body))
	if len(w.Terms) > 0 {
		b.add(", found AS (INSERT INTO {}terms (term, n) SELECT DISTINCT x, t.changed FROM thread t, unnest(%s) x)",
			b.arg("bigint[]", w.Terms))
	}
}

// insertRecords adds the link, the pin, the operation and the workspace's state.
func (b *statement) insertRecords(w *encodedCommit) {
	if w.Link != nil {
		b.add(", linked AS (INSERT INTO {}links (thread, seq, session, record) SELECT n, seq, %s, %s FROM thread)",
			b.arg("bytea", w.session), b.arg("bytea", w.link))
	}
	switch {
	case w.Pin != nil && w.Pin.Name == "":
		b.add(", unpin AS (DELETE FROM {}pins x USING pinned, thread WHERE x.n = pinned.n)")
	case w.Pin != nil:
		b.add(", pin AS (INSERT INTO {}pins (n, name) SELECT pinned.n, %s FROM pinned, thread ON CONFLICT (n) DO UPDATE SET name = excluded.name)",
			b.arg("bytea", w.Encoded.Pin))
	}
	if w.Operation != nil {
		b.add(", logged AS (INSERT INTO {}operations (n, id, workspace, record) SELECT changed, %s, %s, %s FROM thread)",
			b.arg("bytea", []byte(w.Operation.ID)), b.arg("bytea", []byte(w.Operation.Workspace)), b.arg("bytea", w.Encoded.Operation))
	}
	if w.Workspace != nil {
		b.add(", state AS (INSERT INTO {}workspaces (id, state) SELECT %s, %s FROM thread ON CONFLICT (id) DO UPDATE SET state = excluded.state)",
			b.arg("bytea", []byte(w.Workspace.Workspace)), b.arg("bytea", w.Encoded.State))
	}
}

// insertObjects adds the staged objects in the order of their names, so that two commits with the same
// objects lock them in the same order.
func (b *statement) insertObjects(w *encodedCommit, born int64) {
	if len(w.staged) == 0 {
		return
	}
	names, sizes, datas, bodies := columns(w.staged)
	b.add(", brought AS ("+insertObjects+" FROM thread, unnest(%s, %s, %s, %s) AS x(name, size, data, body) ON CONFLICT (name) DO NOTHING)",
		b.arg("bigint", born), b.arg("bytea[]", names), b.arg("bigint[]", sizes), b.arg("bytea[]", datas), b.arg("text[]", bodies))
}

const insertObjects = "INSERT INTO {}objects (born, name, size, data, body) SELECT %s, x.name, x.size, x.data, nullif(x.body, '')"
