package sqlite

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// threadRow is a thread as a commit finds it and leaves it.
type threadRow struct {
	n, head, tip, link int64
	hidden             bool
	newest             []byte // record of link
	phase              segno.Phase
	segno.Head
}

// node is a commit's place in the tree; the zero node is above every root.
type node struct {
	n, line, depth int64
	turn           int
}

// slot is where a commit goes.
type slot struct {
	next     int64 // the number of the next commit
	isTaken  bool  // the store has a commit of the same id
	parent   node  // the zero node if the commit has no parent or the store does not have it
	hasChild bool  // the parent's line continues
}

// findSlot reads in one query what a commit must know of the other commits.
func findSlot(ctx context.Context, tx *conn, w *written) (at slot, err error) {
	_, err = tx.row(ctx, `SELECT (SELECT coalesce(max(n), 0) + 1 FROM commits), EXISTS (SELECT 1 FROM commits WHERE id = ?1),
			coalesce(p.n, 0), iif(p.n IS NULL, 0, p.line), iif(p.n IS NULL, 0, p.depth),
			iif(p.n IS NULL, 0, p.turn), EXISTS (SELECT 1 FROM commits c WHERE c.line = p.line AND c.depth = p.depth + 1)
		FROM (SELECT 1) LEFT JOIN commits p ON p.id = ?2 AND p.line IS NOT NULL`, []any{string(w.ID), string(w.Parent)},
		&at.next, &at.isTaken, &at.parent.n, &at.parent.line, &at.parent.depth, &at.parent.turn, &at.hasChild)
	return at, err
}

// apply puts a commit into the database. Fencing comes before the comparison of
// heads: a writer whose lease has passed on must not learn where to go on.
func (s *Store) apply(ctx context.Context, tx *conn, w *written, at slot) (segno.Head, error) {
	t, err := s.threadFor(ctx, tx, w)
	if err != nil {
		return segno.Head{}, err
	}
	if w.Epoch < t.Epoch {
		return segno.Head{}, segno.NewError(segno.KindFenced, "commit", string(w.Thread), nil)
	}
	if w.Expect != t.Head.Head {
		return segno.Head{}, segno.NewError(segno.KindConflict, "commit", string(w.Thread), &segno.ConflictError{Actual: t.Head})
	}
	if at.parent.n == 0 {
		if at.parent, err = findNode(ctx, tx, w.Parent); err != nil {
			return segno.Head{}, err
		}
	}
	if err := s.applyObjects(ctx, tx, w); err != nil {
		return segno.Head{}, err
	}
	self := node{n: at.next, turn: at.parent.turn}
	if w.Create != nil {
		t.Turn = at.parent.turn
	}
	if w.Checkpoint != nil {
		self.turn = w.Checkpoint.Turn
		t.Turn = max(t.Turn, self.turn)
	}
	t.Seq++
	if err := t.move(ctx, tx, w, self.n); err != nil {
		return segno.Head{}, err
	}
	if err := s.chain(ctx, tx, t, w.Link); err != nil {
		return segno.Head{}, err
	}
	if err := s.insertCommit(ctx, tx, w, t, self, at); err != nil {
		return segno.Head{}, err
	}
	if err := s.movePhase(ctx, tx, t, &w.Commit); err != nil {
		return segno.Head{}, err
	}
	return t.Head, s.applySides(ctx, tx, w)
}

// threadFor loads the commit's thread, or makes it.
func (s *Store) threadFor(ctx context.Context, tx *conn, w *written) (*threadRow, error) {
	t, err := s.loadThread(ctx, tx, w.Thread)
	if err != nil {
		return nil, err
	}
	switch {
	case t != nil && t.hidden, t == nil && w.Create == nil:
		return nil, notFound("commit", string(w.Thread))
	case t != nil && w.Create != nil:
		return nil, segno.NewError(segno.KindConflict, "commit", string(w.Thread), &segno.ConflictError{Actual: t.Head})
	case t != nil:
		return t, nil
	}
	if err := missed(ctx, tx, "commit", "threads", string(w.Thread)); err != nil {
		return nil, err
	}
	rec, err := record.EncodeThread(w.Create)
	if err != nil {
		return nil, invalid(w.ID, err)
	}
	r, err := tx.exec(ctx, `INSERT INTO threads (id, hidden, head, tip, seq, turn, epoch, link, changed, workspace, owner, expires, record)
		VALUES (?, 0, 0, 0, 0, 0, 0, 0, 0, ?, ?, 0, ?)`, string(w.Thread), string(w.Create.Workspace), (&leaseRow{thread: w.Thread}).column(), s.seal.Seal(rec, "thread", string(w.Thread)))
	if err != nil {
		return nil, err
	}
	t = &threadRow{Head: segno.Head{Thread: w.Thread}}
	t.n, err = r.LastInsertId()
	return t, err
}

// loadThread returns nil if there is no such thread.
func (s *Store) loadThread(ctx context.Context, c *conn, id segno.ThreadID) (*threadRow, error) {
	t := &threadRow{Head: segno.Head{Thread: id}}
	row := leaseRow{thread: id}
	found, err := c.row(ctx, `SELECT t.n, t.hidden, t.head, t.tip, t.seq, t.turn, t.epoch, t.link,
			coalesce(h.id, ''), coalesce(p.id, ''), l.record, t.owner, t.expires, coalesce((SELECT x.phase FROM phases x WHERE x.phase IN `+allPhases+` AND x.id = t.id), 0)
		FROM threads t LEFT JOIN commits h ON h.n = t.head LEFT JOIN commits p ON p.n = t.tip LEFT JOIN links l ON l.n = t.link
		WHERE t.id = ?`, []any{string(id)},
		&t.n, &t.hidden, &t.head, &t.tip, &t.Seq, &t.Turn, &t.Epoch, &t.link, &t.Head.Head, &t.Head.Tip, &t.newest, &row.owner, &row.expires, &t.phase)
	if err != nil || !found {
		return nil, err
	}
	row.hidden, row.epoch = t.hidden, t.Epoch
	if err := row.check("read thread", s.seal != nil); err != nil {
		return nil, err
	}
	if t.link != 0 {
		if t.Link, err = s.readLink(t.newest, id, t.link); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// findNode returns the node with an id; the zero node for "".
func findNode(ctx context.Context, c *conn, id segno.CommitID) (node, error) {
	var at node
	if id == "" {
		return at, nil
	}
	found, err := c.row(ctx, `SELECT n, line, depth, turn FROM commits WHERE id = ? AND line IS NOT NULL`,
		[]any{string(id)}, &at.n, &at.line, &at.depth, &at.turn)
	if err == nil && !found {
		if err = missed(ctx, c, "find commit", "commits", string(id)); err == nil {
			err = notFound("find commit", string(id))
		}
	}
	return at, err
}

// move sets the two pointers. n is the commit's own number.
func (t *threadRow) move(ctx context.Context, tx *conn, w *written, n int64) error {
	m := w.Move
	if m == nil {
		if w.IsNode() {
			t.head, t.tip, t.Head.Head, t.Head.Tip = n, n, w.ID, w.ID
		}
		return nil
	}
	for _, p := range []struct {
		to segno.CommitID
		n  *int64
		id *segno.CommitID
	}{{m.Head, &t.head, &t.Head.Head}, {m.Tip, &t.tip, &t.Head.Tip}} {
		switch p.to {
		case *p.id:
		case segno.Self:
			*p.n, *p.id = n, w.ID
		default:
			at, err := findNode(ctx, tx, p.to)
			if err != nil {
				return err
			}
			*p.n, *p.id = at.n, p.to
		}
	}
	return nil
}

// chain adds l to the chain. Unless it is aside it becomes the head session, and
// the one before it ends when l starts.
func (s *Store) chain(ctx context.Context, tx *conn, t *threadRow, l *segno.Link) error {
	if l == nil {
		return nil
	}
	rec, err := record.EncodeLink(l)
	if err != nil {
		return invalid("", err)
	}
	if t.link != 0 && !l.Detached {
		before := t.Link
		before.End = l.Start
		ended, err := record.EncodeLink(&before)
		if err != nil {
			return err
		}
		if _, err := tx.exec(ctx, `UPDATE links SET record = ? WHERE n = ?`, s.sealLink(ended, t.Thread, t.link), t.link); err != nil {
			return err
		}
	}
	var n int64
	if _, err := tx.row(ctx, `SELECT coalesce(max(n), 0) + 1 FROM links`, nil, &n); err != nil {
		return err
	}
	_, err = tx.exec(ctx, `INSERT INTO links (n, thread, session, record) VALUES (?, ?, ?, ?)`,
		n, t.n, s.seal.Name("session", string(l.Session)), s.sealLink(rec, t.Thread, n))
	if err != nil || l.Detached {
		return err
	}
	t.Link, t.link = *l, n
	return nil
}

// insertCommit writes the commit's row, its terms and the thread's new standing.
// A node continues its parent's line if the parent is the last of it, else it is
// the first of a line of its own.
func (s *Store) insertCommit(ctx context.Context, tx *conn, w *written, t *threadRow, self node, at slot) error {
	var line, depth any
	if w.IsNode() {
		self.line, self.depth = self.n, 0
		if at.parent.n != 0 {
			self.depth = at.parent.depth + 1
			if !at.hasChild {
				self.line = at.parent.line
			}
		}
		line, depth = self.line, self.depth
	}
	_, err := tx.exec(ctx, `INSERT INTO commits
			(n, id, thread, seq, parent, line, depth, turn, high, head, tip, epoch, link, digest, checkpoint, entries)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		self.n, string(w.ID), t.n, t.Seq, at.parent.n, line, depth, self.turn, t.Turn, t.head, t.tip,
		int64(t.Epoch), t.link, w.digest, blob(w.checkpoint), blob(w.entries))
	if err != nil {
		return err
	}
	all := s.seal.Terms(w.Checkpoint)
	if w.Create != nil && w.Create.ParentThread != "" {
		all = append(all, s.seal.Term(fieldOf, string(w.Create.ParentThread)))
	}
	for _, term := range all {
		if _, err := tx.exec(ctx, `INSERT OR IGNORE INTO terms (term, n) VALUES (?, ?)`, term, self.n); err != nil {
			return err
		}
	}
	_, err = tx.exec(ctx, `UPDATE threads SET head = ?, tip = ?, seq = ?, turn = ?, link = ?, changed = ? WHERE n = ?`,
		t.head, t.tip, t.Seq, t.Turn, t.link, self.n, t.n)
	return err
}

// blob makes a nil slice NULL.
func blob(p []byte) any {
	if p == nil {
		return nil
	}
	return p
}

// applySides writes what a commit says beside the tree.
func (s *Store) applySides(ctx context.Context, tx *conn, w *written) error {
	if w.Pin != nil {
		if err := s.applyPin(ctx, tx, w.Pin); err != nil {
			return err
		}
	}
	if w.Workspace != nil {
		rec, err := record.EncodeState(w.Workspace)
		if err != nil {
			return invalid(w.ID, err)
		}
		if _, err := tx.exec(ctx, `INSERT INTO workspaces (id, state) VALUES (?, ?)
			ON CONFLICT (id) DO UPDATE SET state = excluded.state`, string(w.Workspace.Workspace), s.seal.Seal(rec, "state", string(w.Workspace.Workspace))); err != nil {
			return err
		}
	}
	if w.Operation == nil {
		return nil
	}
	rec, err := record.EncodeOperation(w.Operation)
	if err != nil {
		return invalid(w.ID, err)
	}
	r, err := tx.exec(ctx, `INSERT OR IGNORE INTO operations (id, workspace, record) VALUES (?, ?, ?)`,
		string(w.Operation.ID), string(w.Operation.Workspace), s.seal.Seal(rec, "operation", string(w.Operation.Workspace), string(w.Operation.ID)))
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, segno.Errorf(segno.KindConflict, "commit", string(w.Operation.ID), "another operation has that id"))
	}
	return nil
}

func (s *Store) applyPin(ctx context.Context, tx *conn, p *segno.Pin) error {
	var n int64
	found, err := tx.row(ctx, `SELECT n FROM commits WHERE id = ? AND checkpoint IS NOT NULL`, []any{string(p.Checkpoint)}, &n)
	if err != nil {
		return err
	}
	if !found {
		return notFound("pin", string(p.Checkpoint))
	}
	if p.Name == "" {
		_, err = tx.exec(ctx, `DELETE FROM pins WHERE n = ?`, n)
		return err
	}
	_, err = tx.exec(ctx, `INSERT OR REPLACE INTO pins (n, name) VALUES (?, ?)`, n, s.text(p.Name, "pin", string(p.Checkpoint)))
	return err
}
