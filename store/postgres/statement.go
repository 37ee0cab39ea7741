package postgres

import (
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
)

// statement is the one statement that is the commit. Its parts see the database as it
// was when it began, but for the thread's row: that is locked first, and compared as it
// is once it is ours. So of many writers on one head one finds it. What else may change
// meanwhile, another commit of that id, another end of the parent's line, a unique index
// refuses, and the statement is carried out again.
//
// It returns no row if the commit is not applied; [Store.refusal] finds out why.
type statement struct {
	text strings.Builder
	args []any
	// conditions that must hold beside the thread's own.
	conditions []string
}

func (b *statement) arg(kind string, value any) string {
	b.args = append(b.args, value)
	return fmt.Sprintf("$%d::%s", len(b.args), kind)
}

func (b *statement) add(format string, args ...any) { fmt.Fprintf(&b.text, format, args...) }

func (b *statement) when(format string, args ...any) {
	b.conditions = append(b.conditions, fmt.Sprintf(format, args...))
}

// isNode is the condition that an id is that of a node.
const isNode = "EXISTS (SELECT FROM {}commits WHERE id = %s AND line IS NOT NULL)"

func (s *Store) statement(w *written) (string, []any) {
	b := new(statement)
	id := b.arg("bytea", []byte(w.ID))
	b.when("NOT EXISTS (SELECT FROM {}commits WHERE id = %s)", id)
	b.add("WITH parent AS MATERIALIZED (SELECT n, thread, line, depth, turn FROM {}commits WHERE id = %s AND line IS NOT NULL)", b.arg("bytea", []byte(w.Parent)))
	if w.Parent != "" {
		b.when("EXISTS (SELECT FROM parent)")
	}
	if len(w.needs) > 0 {
		needs := b.arg("bytea[]", w.needs)
		b.when("(SELECT count(*) FROM {}objects WHERE name = ANY(%[1]s)) = cardinality(%[1]s)", needs)
	}
	if w.Pin != nil {
		b.add(", pinned AS MATERIALIZED (SELECT n FROM {}commits WHERE id = %s AND checkpoint IS NOT NULL)", b.arg("bytea", []byte(w.Pin.Checkpoint)))
		b.when("EXISTS (SELECT FROM pinned)")
	}
	if w.Operation != nil {
		b.when("NOT EXISTS (SELECT FROM {}operations WHERE id = %s)", b.arg("bytea", []byte(w.Operation.ID)))
	}
	head, tip := b.pointers(w, id)
	if w.Create != nil {
		b.create(w, head, tip)
	} else {
		b.update(w, head, tip)
	}
	b.insert(w, id)
	b.sides(w)
	b.objects(w, s.options.now().Unix())
	b.add(" SELECT seq, turn, epoch, head, tip, session FROM thread")
	return s.sql(b.text.String()), b.args
}

// pointers are where head and tip go; "" leaves them.
func (b *statement) pointers(w *written, id string) (head, tip string) {
	if w.Move == nil {
		if w.IsNode() {
			return id, id
		}
		return "", ""
	}
	to := func(target segno.CommitID) string {
		if target == segno.Self {
			return id
		}
		at := b.arg("bytea", []byte(target))
		b.when(isNode, at)
		return at
	}
	return to(w.Move.Head), to(w.Move.Tip)
}

const returning = " RETURNING n, seq, turn, epoch, head, tip, session, link, changed)"

// update locks the thread and moves it on. Fencing and the comparison of heads are
// here.
func (b *statement) update(w *written, head, tip string) {
	b.add(", thread AS (UPDATE {}threads SET seq = seq + 1, changed = nextval('{}commit_numbers')")
	if head != "" {
		b.add(", head = %s, tip = %s", head, tip)
	}
	if w.Checkpoint != nil {
		b.add(", turn = greatest(turn, %s)", b.arg("bigint", w.Checkpoint.Turn))
	}
	if next := w.phases(); next != [...]int16{0, 1, 2, 3} {
		b.add(", phase = (%s)[phase + 1]", b.arg("smallint[]", next[:]))
	}
	if w.Link != nil && !w.Link.Detached {
		b.add(", link = seq + 1, session = %s", b.arg("bytea", w.headLink))
	}
	b.when("id = %s AND NOT hidden AND epoch <= %s AND head = %s", b.arg("bytea", []byte(w.Thread)),
		b.arg("bigint", int64(w.Epoch)), b.arg("bytea", []byte(w.Expect)))
	b.add(" WHERE %s"+returning, strings.Join(b.conditions, " AND "))
}

// create makes the thread, unless there is one of that id.
func (b *statement) create(w *written, head, tip string) {
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
		b.arg("bytea", short(string(w.Create.Workspace))), b.arg("bytea", short(string(w.Create.ParentThread))), b.arg("bytea", w.thread),
		b.arg("smallint", w.phases()[segno.PhaseUnknown]), strings.Join(b.conditions, " AND "))
}

// insert adds the commit's row and its terms. A node continues its parent's line if the
// parent is the last of it and of the same thread, else it is the first of a line of
// its own.
func (b *statement) insert(w *written, id string) {
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
		" SELECT t.changed, %[1]s, t.n, t.seq, p.n, %[2]s, %[3]s, %[4]s, nullif(t.turn, %[4]s), nullif(t.epoch, 0), t.link, nullif(t.head, %[1]s), nullif(t.tip, %[1]s), %[5]s, %[6]s, %[7]s, nullif(%[8]s, '')"+
		" FROM thread t LEFT JOIN parent p ON true)",
		id, line, depth, turn, b.arg("bytea", w.digest), b.arg("bytea", w.checkpoint), b.arg("bytea", w.entries), b.arg("text", w.body))
	if len(w.terms) > 0 {
		b.add(", found AS (INSERT INTO {}terms (term, n) SELECT DISTINCT x, t.changed FROM thread t, unnest(%s) x)", b.arg("bigint[]", w.terms))
	}
}

// sides writes what a commit says beside the tree.
func (b *statement) sides(w *written) {
	if w.Link != nil {
		b.add(", linked AS (INSERT INTO {}links (thread, seq, session, record) SELECT n, seq, %s, %s FROM thread)",
			b.arg("bytea", w.session), b.arg("bytea", w.link))
	}
	switch {
	case w.Pin != nil && w.Pin.Name == "":
		b.add(", unpin AS (DELETE FROM {}pins x USING pinned, thread WHERE x.n = pinned.n)")
	case w.Pin != nil:
		b.add(", pin AS (INSERT INTO {}pins (n, name) SELECT pinned.n, %s FROM pinned, thread ON CONFLICT (n) DO UPDATE SET name = excluded.name)",
			b.arg("bytea", w.pin))
	}
	if w.Operation != nil {
		b.add(", logged AS (INSERT INTO {}operations (n, id, workspace, record) SELECT changed, %s, %s, %s FROM thread)",
			b.arg("bytea", []byte(w.Operation.ID)), b.arg("bytea", []byte(w.Operation.Workspace)), b.arg("bytea", w.operation))
	}
	if w.Workspace != nil {
		b.add(", stood AS (INSERT INTO {}workspaces (id, state) SELECT %s, %s FROM thread ON CONFLICT (id) DO UPDATE SET state = excluded.state)",
			b.arg("bytea", []byte(w.Workspace.Workspace)), b.arg("bytea", w.state))
	}
}

// objects adds what the commit brings, in the order of names, so that two commits that
// bring the same wait for each other in one order.
func (b *statement) objects(w *written, born int64) {
	if len(w.staged) == 0 {
		return
	}
	names, sizes, datas, bodies := columns(w.staged)
	b.add(", brought AS ("+insertObjects+" FROM thread, unnest(%s, %s, %s, %s) AS x(name, size, data, body) ON CONFLICT (name) DO NOTHING)",
		b.arg("bigint", born), b.arg("bytea[]", names), b.arg("bigint[]", sizes), b.arg("bytea[]", datas), b.arg("text[]", bodies))
}

const insertObjects = "INSERT INTO {}objects (born, name, size, data, body) SELECT %s, x.name, x.size, x.data, nullif(x.body, '')"
