package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// checker is a check in progress.
type checker struct {
	sqlstore.Check

	s        *Store
	c        *conn
	ctx      context.Context // the caller's context, which may be cancelled
	queryCtx context.Context // the context of the queries
}

// each scans each row of a query into dest and calls do, which returns the damage of the row. It stops if the
// caller cancels. If damage ends the query, each reports that under the name op, and the check continues with
// the next query.
func (k *checker) each(op, query string, dest []any, do func() error) error {
	err := k.c.Query(k.queryCtx, query, nil, dest, func() error {
		damage := do()
		if segno.KindOf(damage) == segno.KindCancelled {
			return damage
		}
		return cmp.Or(k.Verdict(damage), k.ctx.Err())
	})
	if kindOf(err) == segno.KindCorrupt {
		return k.Verdict(fail(op, filepath.Base(k.s.file), err))
	}
	return err
}

// Check implements [segno.Checker]. It reads one snapshot of the database.
func (s *Store) Check(ctx context.Context, p segno.CheckPolicy, report func(error) bool) (segno.Checked, error) {
	k := &checker{s: s, ctx: ctx, Check: sqlstore.Check{Report: report, Stored: map[segno.Hash]bool{}}}
	err := s.readSnapshot(ctx, "check", s.dir, func(queryCtx context.Context, c *conn) error {
		k.c, k.queryCtx = c, queryCtx
		for _, check := range []func() error{k.checkDatabase, k.checkThreads, k.checkPhases, k.checkCommits, k.checkRecords,
			k.checkPacks, k.checkObjects} {
			if err := check(); err != nil {
				return err
			}
		}
		return k.References(k.ctx, s, &s.records, p)
	})
	if errors.Is(err, sqlstore.ErrStopped) {
		err = nil
	}
	return k.Checked, err
}

// checkDatabase makes SQLite check its pages and indexes.
func (k *checker) checkDatabase() error {
	var result string
	return k.each("check database", "PRAGMA integrity_check", []any{&result}, func() error {
		if result == "ok" {
			return nil
		}
		return corrupt("check database", filepath.Base(k.s.file), errors.New(result))
	})
}

func (k *checker) checkThreads() error {
	var l sqlstore.LeaseRow
	var rec sql.RawBytes
	var isComplete bool
	return k.each("check threads", `SELECT t.id, t.record, t.hidden OR (t.head = 0 OR h.line IS NOT NULL AND p.line IS NOT NULL)
			AND (t.link = 0 OR EXISTS (SELECT 1 FROM links l WHERE l.n = t.link AND l.thread = t.n)),
			t.hidden, t.owner, t.expires, t.epoch
		FROM threads t LEFT JOIN commits h ON h.n = t.head LEFT JOIN commits p ON p.n = t.tip`,
		append([]any{&l.Thread, &rec, &isComplete}, l.Dest()...), func() error {
			k.Threads++
			_, err := k.s.records.Thread(l.Thread, rec)
			if err == nil && !isComplete {
				err = corrupt("check thread", string(l.Thread), errors.New("its head, its tip or its head session is missing"))
			}
			return cmp.Or(err, database{k.s}.VerifyLease("check thread", &l))
		})
}

// checkPhases verifies that each thread that is not deleted has exactly one phase.
func (k *checker) checkPhases() error {
	if !k.s.hasPhases {
		return nil
	}
	var id string
	return k.each("check phases", `SELECT t.id FROM threads t WHERE NOT t.hidden AND
		(SELECT count(*) FROM phases x WHERE x.phase IN `+allPhases+` AND x.id = t.id AND x.thread = t.n) <> 1`, []any{&id},
		func() error { return corrupt("check thread", id, errors.New("its phase is missing")) })
}

// checkCommits decodes every node and verifies its place: one deeper than its parent, on the parent's line or
// the first node of a new line, and later in its thread.
func (k *checker) checkCommits() error {
	nodes := make([]sqlstore.Node, 1)
	n := &nodes[0]
	var isPlaced bool
	return k.each("check commits", `SELECT c.id, c.seq, t.id, coalesce(p.id, ''), c.checkpoint, c.entries,
			coalesce(length(c.checkpoint), 1) > 0 AND coalesce(length(c.entries), 1) > 0 AND
			CASE WHEN c.parent = 0 THEN c.depth = 0 AND c.line = c.n
			ELSE coalesce(c.depth = p.depth + 1 AND (c.line = p.line OR c.line = c.n)
				AND (c.thread <> p.thread OR c.seq > p.seq), 0) END
		FROM commits c JOIN threads t ON t.n = c.thread LEFT JOIN commits p ON p.n = c.parent
		WHERE c.line IS NOT NULL ORDER BY c.n`, []any{&n.ID, &n.Seq, &n.Thread, &n.Parent, &n.Records[sqlstore.Checkpoint],
		&n.Records[sqlstore.Entries], &isPlaced}, func() error {
		line, err := k.s.records.DecodeOne(*n)
		if err == nil && !isPlaced {
			err = errors.New("its parent is not the commit before it")
		}
		if err != nil {
			return corrupt("check commit", string(n.ID), err)
		}
		if c := line.Checkpoint; c != nil {
			k.Checkpoints++
			k.Roots = append(k.Roots, c)
		}
		return nil
	})
}

// checkRecords decodes the records of links, operations, workspaces and pins.
func (k *checker) checkRecords() error {
	var id, workspace string
	var n int64
	var rec sql.RawBytes
	records := &k.s.records
	for query, decode := range map[string]func() error{
		`SELECT t.id, l.n, '', l.record FROM links l JOIN threads t ON t.n = l.thread`: func() error {
			_, err := k.s.decodeLink(segno.ThreadID(id), n, rec)
			return err
		},
		`SELECT id, 0, workspace, record FROM operations`: func() error {
			_, err := records.Operation(segno.OperationID(id), segno.WorkspaceID(workspace), rec)
			return err
		},
		`SELECT id, 0, '', record FROM workspaces WHERE record IS NOT NULL`: func() error {
			_, err := records.Workspace(segno.WorkspaceID(id), rec, nil)
			return err
		},
		`SELECT id, 0, '', state FROM workspaces WHERE state IS NOT NULL`: func() error {
			_, err := records.State(segno.WorkspaceID(id), rec)
			return err
		},
		`SELECT c.id, 0, '', p.name FROM pins p JOIN commits c ON c.n = p.n`: func() error {
			_, err := records.Pin(segno.CommitID(id), rec)
			return err
		},
	} {
		if err := k.each("check records", query, []any{&id, &n, &workspace, &rec}, decode); err != nil {
			return err
		}
	}
	return nil
}

// checkPacks reads the index of every pack.
func (k *checker) checkPacks() error {
	var name string
	var objects int
	return k.each("check packs", `SELECT name, objects FROM packs`, []any{&name, &objects}, func() error {
		x, err := k.s.packs.index("check pack", name)
		switch {
		case segno.KindOf(err) == segno.KindNotFound:
			err = corrupt("check pack", name, errors.New("the file is missing"))
		case err == nil && len(x.entries) != objects:
			err = corrupt("check pack", name, fmt.Errorf("it lists %d objects instead of %d", len(x.entries), objects))
		}
		return err
	})
}

// checkObjects reads and hashes every object.
func (k *checker) checkObjects() error {
	var raw sql.RawBytes
	var at objectRow
	return k.each("check objects", `SELECT o.name, `+objectColumns, append([]any{&raw}, at.dest()...), func() error {
		if len(raw) != len(segno.Hash{}) {
			return corrupt("check object", fmt.Sprintf("%x", raw), errKey)
		}
		name := segno.Hash(raw)
		k.Objects++
		k.Bytes += at.size
		k.Stored[name] = true
		_, err := k.s.fetch(name, name, at)
		if err == nil {
			return nil
		}
		// A collection may have deleted or moved the object after the check began.
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
		return fail("check object", name.String(), err)
	})
}
