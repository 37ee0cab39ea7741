package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// checking is a check under way.
type checking struct {
	s      *Store
	report func(error) bool
	stop   bool
	segno.Checked
	objects     map[segno.Hash]bool
	checkpoints []*segno.Checkpoint
}

// errStopped ends a check that its caller has seen enough of.
var errStopped = errors.New("the check was stopped")

// found reports damage.
func (k *checking) found(err error) error {
	k.Damaged++
	if !k.report(err) {
		k.stop = true
		return errStopped
	}
	return nil
}

// Check implements [segno.Checker]. It reads one moment of the database.
func (s *Store) Check(ctx context.Context, p segno.CheckPolicy, report func(error) bool) (segno.Checked, error) {
	const op = "check"
	k := &checking{s: s, report: report, objects: map[segno.Hash]bool{}}
	err := s.readApart(ctx, op, s.dir, func(calm context.Context, c *conn) (err error) {
		if _, err := c.exec(calm, "BEGIN"); err != nil {
			return err
		}
		defer func() {
			_, end := c.exec(calm, "ROLLBACK") // nothing was written
			err = errors.Join(err, end)
		}()
		for _, part := range []func(ctx, calm context.Context, c *conn) error{
			k.database, k.threads, k.phases, k.commits, k.ledger, k.packs, k.allObjects,
		} {
			if err := part(ctx, calm, c); err != nil {
				return err
			}
		}
		return k.references(ctx, p)
	})
	if k.stop {
		err = nil
	}
	return k.Checked, err
}

// database asks SQLite.
func (k *checking) database(ctx, calm context.Context, c *conn) error {
	return c.rows(calm, "PRAGMA integrity_check", nil, func(r *sql.Rows) error {
		var said string
		if err := r.Scan(&said); err != nil || said == "ok" {
			return err
		}
		return k.found(corrupt("check database", filepath.Base(k.s.file), errors.New(said)))
	})
}

func (k *checking) threads(ctx, calm context.Context, c *conn) error {
	return c.rows(calm, `SELECT t.id, t.record, t.hidden OR (t.head = 0 OR h.line IS NOT NULL AND p.line IS NOT NULL)
			AND (t.link = 0 OR EXISTS (SELECT 1 FROM links l WHERE l.n = t.link AND l.thread = t.n))
		FROM threads t LEFT JOIN commits h ON h.n = t.head LEFT JOIN commits p ON p.n = t.tip`, nil, func(r *sql.Rows) error {
		var id segno.ThreadID
		var rec sql.RawBytes
		var stands bool
		if err := r.Scan(&id, &rec, &stands); err != nil {
			return err
		}
		k.Threads++
		if _, err := k.s.readThread(id, rec); err != nil {
			return k.found(err)
		}
		if !stands {
			return k.found(corrupt("check thread", string(id), errors.New("its head, its tip or its head session is missing")))
		}
		return ctx.Err()
	})
}

// phases wants one phase for each thread that is not deleted.
func (k *checking) phases(ctx, calm context.Context, c *conn) error {
	if !k.s.hasPhases {
		return nil
	}
	return c.rows(calm, `SELECT t.id FROM threads t WHERE NOT t.hidden AND
		(SELECT count(*) FROM phases x WHERE x.phase IN `+allPhases+` AND x.id = t.id AND x.thread = t.n) <> 1`, nil, func(r *sql.Rows) error {
		var id string
		if err := r.Scan(&id); err != nil {
			return err
		}
		return k.found(corrupt("check thread", id, errors.New("its phase is missing")))
	})
}

// commits decodes every node and proves its place: one deeper than its parent, on
// the parent's line or the first of its own, and later in its thread.
func (k *checking) commits(ctx, calm context.Context, c *conn) error {
	return c.rows(calm, `SELECT c.id, c.seq, t.id, coalesce(p.id, ''), c.checkpoint, c.entries,
			coalesce(length(c.checkpoint), 1) > 0 AND coalesce(length(c.entries), 1) > 0 AND
			CASE WHEN c.parent = 0 THEN c.depth = 0 AND c.line = c.n
			ELSE coalesce(c.depth = p.depth + 1 AND (c.line = p.line OR c.line = c.n)
				AND (c.thread <> p.thread OR c.seq > p.seq), 0) END
		FROM commits c JOIN threads t ON t.n = c.thread LEFT JOIN commits p ON p.n = c.parent
		WHERE c.line IS NOT NULL ORDER BY c.n`, nil, func(r *sql.Rows) error {
		var at segno.Node
		var checkpoint, entries sql.RawBytes
		var placed bool
		if err := r.Scan(&at.ID, &at.Seq, &at.Thread, &at.Parent, &checkpoint, &entries, &placed); err != nil {
			return err
		}
		cp, err := k.s.readCheckpoint(checkpoint, at)
		if err == nil {
			_, err = k.entries(entries, at)
		}
		if err == nil {
			err = k.complete(checkpoint, entries, at)
		}
		if err == nil && !placed {
			err = errors.New("it does not follow its parent")
		}
		if err != nil {
			return k.found(corrupt("check commit", string(at.ID), err))
		}
		if cp != nil {
			k.Checkpoints++
			k.checkpoints = append(k.checkpoints, cp)
		}
		return ctx.Err()
	})
}

// ledger decodes the records beside the tree.
func (k *checking) ledger(ctx, calm context.Context, c *conn) error {
	for _, part := range []struct {
		query  string
		decode func(id string, n int64, of string, rec []byte) error
	}{
		{`SELECT t.id, l.n, '', l.record FROM links l JOIN threads t ON t.n = l.thread`, func(id string, n int64, _ string, rec []byte) error {
			_, err := k.s.readLink(rec, segno.ThreadID(id), n)
			return err
		}},
		{`SELECT id, 0, workspace, record FROM operations`, func(id string, _ int64, of string, rec []byte) error {
			_, err := k.s.readOperation(segno.OperationID(id), segno.WorkspaceID(of), rec)
			return err
		}},
		{`SELECT id, 0, '', record FROM workspaces WHERE record IS NOT NULL`, func(id string, _ int64, _ string, rec []byte) error {
			_, err := k.s.readWorkspace(segno.WorkspaceID(id), rec, nil)
			return err
		}},
		{`SELECT id, 0, '', state FROM workspaces WHERE state IS NOT NULL`, func(id string, _ int64, _ string, rec []byte) error {
			_, err := k.s.readState(segno.WorkspaceID(id), rec)
			return err
		}},
		{`SELECT c.id, 0, '', p.name FROM pins p JOIN commits c ON c.n = p.n`, func(id string, _ int64, _ string, rec []byte) error {
			_, err := k.s.seal.Open(rec, "pin", id)
			return damaged("read pin", id, err)
		}},
	} {
		err := c.rows(calm, part.query, nil, func(r *sql.Rows) error {
			var id, of string
			var n int64
			var rec sql.RawBytes
			if err := r.Scan(&id, &n, &of, &rec); err != nil {
				return err
			}
			if err := part.decode(id, n, of, rec); err != nil {
				return k.found(err)
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// packs reads every pack's index.
func (k *checking) packs(ctx, calm context.Context, c *conn) error {
	return c.rows(calm, `SELECT name, objects FROM packs`, nil, func(r *sql.Rows) error {
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
		return ctx.Err()
	})
}

// allObjects reads and hashes every object.
func (k *checking) allObjects(ctx, calm context.Context, c *conn) error {
	return c.rows(calm, `SELECT o.name, o.size, o.pack, o.at, o.length, coalesce(p.name, ''), s.data
		FROM objects o LEFT JOIN packs p ON p.n = o.pack LEFT JOIN small s ON o.pack = 0 AND s.n = o.at`, nil, func(r *sql.Rows) error {
		var raw, data sql.RawBytes
		var at place
		if err := r.Scan(&raw, &at.size, &at.pack, &at.at, &at.length, &at.name, &data); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		name := segno.Hash(raw)
		at.data = data
		k.Objects++
		k.Bytes += at.size
		k.objects[name] = true
		if _, err := k.s.fetch(name, name, at); err != nil {
			if gone, lookErr := k.collected(ctx, name); lookErr != nil || gone {
				return lookErr
			}
			if errors.Is(err, fs.ErrNotExist) {
				err = corrupt("check object", name.String(), fmt.Errorf("pack %s is missing", at.name))
			}
			return k.found(fail("check object", name.String(), err))
		}
		return nil
	})
}

// collected reports whether an object was dropped or moved since the check began.
func (k *checking) collected(ctx context.Context, name segno.Hash) (bool, error) {
	_, err := k.s.object(ctx, name, name)
	if kind := segno.KindOf(err); err == nil || kind == segno.KindNotFound {
		return true, nil
	} else if kind == segno.KindCancelled {
		return false, err
	}
	return false, nil
}

// references follows every checkpoint to every object it reaches.
func (k *checking) references(ctx context.Context, p segno.CheckPolicy) error {
	seen := map[segno.Hash]struct{}{}
	var missing []segno.Hash
	visit := func(h segno.Hash) bool {
		if h.IsZero() {
			return false
		}
		if _, ok := seen[h]; ok {
			return false
		}
		seen[h] = struct{}{}
		if !k.objects[k.s.named(h)] {
			missing = append(missing, h)
			return false
		}
		return true
	}
	for _, c := range k.checkpoints {
		if err := ctx.Err(); err != nil {
			return err
		}
		missing = nil
		if p.Trace != nil {
			if err := p.Trace(ctx, k.s.Objects(), *c, visit); err != nil {
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
			err := corrupt("check checkpoint", string(c.ID), fmt.Errorf("object %s is missing", h))
			if err := k.found(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete is [segment.complete] for what is on disk.
func (k *checking) complete(checkpoint, entries []byte, at segno.Node) error {
	n := segment{Node: at}
	var err1, err2 error
	n.checkpoint, err1 = k.s.unpack(checkpoint, "checkpoint", at)
	n.entries, err2 = k.s.unpack(entries, "entries", at)
	return errors.Join(err1, err2, n.complete(true))
}

// entries reads what is on disk, whatever the cache has.
func (k *checking) entries(packed []byte, at segno.Node) ([]segno.Entry, error) {
	if packed == nil {
		return nil, nil
	}
	rec, err := k.s.unpack(packed, "entries", at)
	if err != nil {
		return nil, err
	}
	return record.DecodeEntries(rec)
}
