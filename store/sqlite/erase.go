package sqlite

import (
	"context"
	"database/sql"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// Erase implements [segno.Eraser]. It rewrites the database with VACUUM and empties its
// log, because SQLite leaves deleted rows in free pages and in the log. Both need a moment
// without other users: [segno.KindBusy] means that the rows are gone and their bytes may
// not be, and the caller calls Erase again. A process that was killed within Erase may
// leave a pack of less than an hour of age, which a later collection removes.
func (s *Store) Erase(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	const op = "erase"
	x := &reach{s: s, p: p, seen: map[segno.Hash]struct{}{},
		erasing: &erasing{s: s, objects: map[segno.Hash]bool{}, workspaces: map[segno.WorkspaceID]bool{}}}
	done, err := s.collect(ctx, op, x)
	if err != nil || p.DryRun {
		return done, err
	}
	return done, s.vacuum(ctx, op)
}

// erasing is what an erasure drops beside what a collection drops.
type erasing struct {
	s          *Store
	objects    map[segno.Hash]bool // that only deleted threads reach, by their names in the database
	workspaces map[segno.WorkspaceID]bool
	operations []segno.OperationID
}

// erases reports whether an object goes whatever its age.
func (e *erasing) erases(name segno.Hash) bool { return e != nil && e.objects[name] }

// deletedObjects finds the objects that only deleted threads and their workspaces reach.
// What is kept has been traced before.
func (x *reach) deletedObjects(ctx context.Context, g *graph, left []*segno.Snapshot) error {
	x.operations = g.operations
	visit := func(h segno.Hash) bool {
		named := x.s.named(h)
		_, reached := x.seen[named]
		if h.IsZero() || reached || x.objects[named] {
			return false
		}
		x.objects[named] = true
		return true
	}
	for _, node := range g.nodes {
		if node.hidden && !node.kept {
			if err := x.trace(ctx, node.checkpoint, visit); err != nil {
				return err
			}
		}
	}
	for _, snap := range left {
		if err := x.trace(ctx, &segno.Checkpoint{Workspace: snap}, visit); err != nil {
			return err
		}
	}
	return nil
}

// drop erases what is beside the tree of deleted threads. Of a thread its id stays.
func (e *erasing) drop(ctx context.Context, tx *conn) error {
	if e == nil {
		return nil
	}
	if err := e.eraseThreads(ctx, tx); err != nil {
		return err
	}
	for id := range e.workspaces {
		if _, err := tx.exec(ctx, `UPDATE workspaces SET state = NULL WHERE id = ?`, string(id)); err != nil {
			return err
		}
	}
	for _, id := range e.operations {
		if _, err := tx.exec(ctx, `DELETE FROM operations WHERE id = ?`, string(id)); err != nil {
			return err
		}
	}
	return nil
}

func (e *erasing) eraseThreads(ctx context.Context, tx *conn) error {
	var rows []leaseRow
	if err := tx.rows(ctx, `SELECT id, epoch FROM threads WHERE hidden`, nil, func(r *sql.Rows) error {
		row := leaseRow{hidden: true}
		err := r.Scan(&row.thread, &row.epoch)
		rows = append(rows, row)
		return err
	}); err != nil {
		return err
	}
	for _, row := range rows {
		rec, err := record.EncodeThread(&segno.Thread{ID: row.thread})
		if err != nil {
			return err
		}
		rec = e.s.seal.Seal(rec, "thread", string(row.thread))
		if _, err := tx.exec(ctx, `UPDATE threads SET record = ?, link = 0, owner = ?, expires = 0 WHERE id = ?`, rec, row.column(), string(row.thread)); err != nil {
			return err
		}
	}
	for _, query := range []string{
		`UPDATE commits SET link = 0 WHERE thread IN (SELECT n FROM threads WHERE hidden)`,
		`DELETE FROM links WHERE thread IN (SELECT n FROM threads WHERE hidden)`,
	} {
		if _, err := tx.exec(ctx, query); err != nil {
			return err
		}
	}
	return nil
}

// vacuum writes the database to new pages and empties the log.
func (s *Store) vacuum(ctx context.Context, op string) error {
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	defer s.calls.Done()
	var c *conn
	select {
	case c = <-s.writer:
	case <-ctx.Done():
		return fail(op, s.file, ctx.Err())
	}
	defer func() { s.writer <- c }()
	return fail(op, s.file, s.patiently(ctx, c, func(ctx context.Context, c *conn) error {
		if _, err := c.sql.ExecContext(ctx, `VACUUM`); err != nil {
			return err
		}
		var busy, pages, moved int
		if _, err := c.row(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`, nil, &busy, &pages, &moved); err != nil {
			return err
		}
		if busy != 0 {
			return segno.Errorf(segno.KindBusy, op, s.file, "another process reads the database, so its log cannot be emptied").WithHint("close what uses the store, then erase again")
		}
		return nil
	}))
}
