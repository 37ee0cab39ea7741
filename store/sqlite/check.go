package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/sqlstore"
)

// checker is a check under way.
type checker struct {
	segno.Checked

	s           *Store
	c           *conn
	ctx         context.Context // of the caller, which may cancel it
	queryCtx    context.Context // of the queries
	report      func(error) bool
	isStopped   bool
	objects     map[segno.Hash]bool // stored names
	checkpoints []*segno.Checkpoint
}

// errStopped ends a check that the caller has stopped.
var errStopped = errors.New("the check was stopped")

// found reports damage.
func (k *checker) found(err error) error {
	k.Damaged++
	if !k.report(err) {
		k.isStopped = true
		return errStopped
	}
	return nil
}

// each calls do for the rows of a query until it fails or the caller cancels.
func (k *checker) each(query string, do func(sqlstore.Row) error) error {
	return k.c.rows(k.queryCtx, query, nil, func(r sqlstore.Row) error {
		if err := do(r); err != nil {
			return err
		}
		return k.ctx.Err()
	})
}

// Check implements [segno.Checker]. It reads the database as it is at one moment.
func (s *Store) Check(ctx context.Context, p segno.CheckPolicy, report func(error) bool) (segno.Checked, error) {
	k := &checker{s: s, ctx: ctx, report: report, objects: map[segno.Hash]bool{}}
	err := s.readApart(ctx, "check", s.dir, func(queryCtx context.Context, c *conn) (err error) {
		k.c, k.queryCtx = c, queryCtx
		if _, err := c.exec(queryCtx, "BEGIN"); err != nil {
			return err
		}
		defer func() {
			_, endErr := c.exec(queryCtx, "ROLLBACK") // nothing was written
			err = errors.Join(err, endErr)
		}()
		for _, check := range []func() error{k.checkDatabase, k.checkThreads, k.checkPhases, k.checkCommits, k.checkRecords,
			k.checkPacks, k.checkObjects} {
			if err := check(); err != nil {
				return err
			}
		}
		return k.checkReferences(p)
	})
	if k.isStopped {
		err = nil
	}
	return k.Checked, err
}

// checkDatabase makes SQLite check its pages and indexes.
func (k *checker) checkDatabase() error {
	return k.each("PRAGMA integrity_check", func(r sqlstore.Row) error {
		var result string
		if err := r.Scan(&result); err != nil || result == "ok" {
			return err
		}
		return k.found(corrupt("check database", filepath.Base(k.s.file), errors.New(result)))
	})
}

func (k *checker) checkThreads() error {
	return k.each(`SELECT t.id, t.record, t.hidden OR (t.head = 0 OR h.line IS NOT NULL AND p.line IS NOT NULL)
			AND (t.link = 0 OR EXISTS (SELECT 1 FROM links l WHERE l.n = t.link AND l.thread = t.n))
		FROM threads t LEFT JOIN commits h ON h.n = t.head LEFT JOIN commits p ON p.n = t.tip`, func(r sqlstore.Row) error {
		var id segno.ThreadID
		var rec sql.RawBytes
		var isComplete bool
		if err := r.Scan(&id, &rec, &isComplete); err != nil {
			return err
		}
		k.Threads++
		if _, err := k.s.records.Thread(id, rec); err != nil {
			return k.found(err)
		}
		if !isComplete {
			return k.found(corrupt("check thread", string(id), errors.New("its head, its tip or its head session is missing")))
		}
		return nil
	})
}

// checkPhases verifies that each thread that is not deleted has one phase.
func (k *checker) checkPhases() error {
	if !k.s.hasPhases {
		return nil
	}
	return k.each(`SELECT t.id FROM threads t WHERE NOT t.hidden AND
		(SELECT count(*) FROM phases x WHERE x.phase IN `+allPhases+` AND x.id = t.id AND x.thread = t.n) <> 1`,
		func(r sqlstore.Row) error {
			var id string
			if err := r.Scan(&id); err != nil {
				return err
			}
			return k.found(corrupt("check thread", id, errors.New("its phase is missing")))
		})
}

// checkCommits decodes every node and verifies its place: one deeper than its parent, on the parent's line or
// the first of a new one, and later in its thread.
func (k *checker) checkCommits() error {
	return k.each(`SELECT c.id, c.seq, t.id, coalesce(p.id, ''), c.checkpoint, c.entries,
			coalesce(length(c.checkpoint), 1) > 0 AND coalesce(length(c.entries), 1) > 0 AND
			CASE WHEN c.parent = 0 THEN c.depth = 0 AND c.line = c.n
			ELSE coalesce(c.depth = p.depth + 1 AND (c.line = p.line OR c.line = c.n)
				AND (c.thread <> p.thread OR c.seq > p.seq), 0) END
		FROM commits c JOIN threads t ON t.n = c.thread LEFT JOIN commits p ON p.n = c.parent
		WHERE c.line IS NOT NULL ORDER BY c.n`, func(r sqlstore.Row) error {
		nodes := make([]sqlstore.Node, 1)
		n := &nodes[0]
		var isPlaced bool
		if err := r.Scan(&n.ID, &n.Seq, &n.Thread, &n.Parent, &n.Records[sqlstore.Checkpoint], &n.Records[sqlstore.Entries],
			&isPlaced); err != nil {
			return err
		}
		var line *segno.Line
		err := k.s.records.Open(nodes)
		if err == nil {
			line, err = k.s.records.Decode(nodes, true, false)
		}
		if err == nil && !isPlaced {
			err = errors.New("it does not follow its parent")
		}
		if err != nil {
			return k.found(corrupt("check commit", string(n.ID), err))
		}
		if c := line.Commits[0].Checkpoint; c != nil {
			k.Checkpoints++
			k.checkpoints = append(k.checkpoints, c)
		}
		return nil
	})
}

// checkRecords decodes the records of links, operations, workspaces and pins.
func (k *checker) checkRecords() error {
	records := &k.s.records
	for _, check := range []struct {
		query  string // id, number, workspace, record
		decode func(id string, n int64, workspace segno.WorkspaceID, rec []byte) error
	}{
		{`SELECT t.id, l.n, '', l.record FROM links l JOIN threads t ON t.n = l.thread`, func(id string, n int64, _ segno.WorkspaceID,
			rec []byte) error {
			_, err := k.s.decodeLink(segno.ThreadID(id), n, rec)
			return err
		}},
		{`SELECT id, 0, workspace, record FROM operations`, func(id string, _ int64, workspace segno.WorkspaceID, rec []byte) error {
			_, err := records.Operation(segno.OperationID(id), workspace, rec)
			return err
		}},
		{`SELECT id, 0, '', record FROM workspaces WHERE record IS NOT NULL`, func(id string, _ int64, _ segno.WorkspaceID,
			rec []byte) error {
			_, err := records.Workspace(segno.WorkspaceID(id), rec, nil)
			return err
		}},
		{`SELECT id, 0, '', state FROM workspaces WHERE state IS NOT NULL`, func(id string, _ int64, _ segno.WorkspaceID,
			rec []byte) error {
			_, err := records.State(segno.WorkspaceID(id), rec)
			return err
		}},
		{`SELECT c.id, 0, '', p.name FROM pins p JOIN commits c ON c.n = p.n`, func(id string, _ int64, _ segno.WorkspaceID,
			rec []byte) error {
			_, err := records.Pin(segno.CommitID(id), rec)
			return err
		}},
	} {
		err := k.each(check.query, func(r sqlstore.Row) error {
			var id string
			var workspace segno.WorkspaceID
			var n int64
			var rec sql.RawBytes
			if err := r.Scan(&id, &n, &workspace, &rec); err != nil {
				return err
			}
			if err := check.decode(id, n, workspace, rec); err != nil {
				return k.found(err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkPacks reads the index of every pack.
func (k *checker) checkPacks() error {
	return k.each(`SELECT name, objects FROM packs`, func(r sqlstore.Row) error {
		var name string
		var objects int
		if err := r.Scan(&name, &objects); err != nil {
			return err
		}
		x, err := k.s.packs.index("check pack", name)
		if err == nil && len(x.entries) != objects {
			err = corrupt("check pack", name, fmt.Errorf("it lists %d objects instead of %d", len(x.entries), objects))
		}
		if segno.KindOf(err) == segno.KindNotFound {
			err = corrupt("check pack", name, errors.New("the file is missing"))
		}
		if err != nil {
			return k.found(err)
		}
		return nil
	})
}

// checkObjects reads and hashes every object.
func (k *checker) checkObjects() error {
	return k.each(`SELECT o.name, `+objectColumns, func(r sqlstore.Row) error {
		var raw, data sql.RawBytes
		var at objectRow
		if err := r.Scan(&raw, &at.size, &at.pack, &at.at, &at.length, &at.packName, &data); err != nil {
			return err
		}
		name := segno.Hash(raw)
		at.data = data
		k.Objects++
		k.Bytes += at.size
		k.objects[name] = true
		_, err := k.s.fetch(name, name, at)
		if err == nil {
			return nil
		}
		// A collection may have deleted or moved the object since the check began.
		_, nowErr := k.s.readObject(k.ctx, name, name)
		switch kind := segno.KindOf(nowErr); {
		case nowErr == nil, kind == segno.KindNotFound:
			return nil
		case kind == segno.KindCancelled:
			return nowErr
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = corrupt("check object", name.String(), fmt.Errorf("pack %s is missing", at.packName))
		}
		return k.found(fail("check object", name.String(), err))
	})
}

// checkReferences follows every checkpoint to every object that it reaches. It does not read the objects:
// checkObjects has read all of them, so an object that is not in its list is missing.
func (k *checker) checkReferences(p segno.CheckPolicy) error {
	seen := map[segno.Hash]struct{}{}
	var missing []segno.Hash
	visit := func(h segno.Hash) bool {
		if _, ok := seen[h]; ok || h.IsZero() {
			return false
		}
		seen[h] = struct{}{}
		if !k.objects[k.s.records.ObjectName(h)] {
			missing = append(missing, h)
			return false
		}
		return true
	}
	for _, c := range k.checkpoints {
		if err := k.ctx.Err(); err != nil {
			return err
		}
		missing = nil
		if p.Trace != nil {
			if err := p.Trace(k.ctx, k.s.Objects(), *c, visit); err != nil {
				if segno.KindOf(err) == segno.KindCancelled {
					return err
				}
				if err := k.found(segno.NewError(segno.KindCorrupt, "check checkpoint", string(c.ID), err)); err != nil {
					return err
				}
			}
		}
		for _, h := range c.Refs() {
			visit(h)
		}
		for _, h := range missing {
			if err := k.found(corrupt("check checkpoint", string(c.ID), fmt.Errorf("object %s is missing", h))); err != nil {
				return err
			}
		}
	}
	return nil
}
