package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/sqlstore"
	"github.com/jackc/pgx/v5"
)

// checker is a check in progress.
type checker struct {
	sqlstore.Check

	s      *Store
	ctx    context.Context
	on     querier
	bodies []bodyOwner // objects and entries in the bucket, which are read after the transaction
}

// bodyOwner is an object or a commit whose bytes are in the bucket.
type bodyOwner struct {
	object segno.Hash // the stored name, or zero
	size   int64
	node   sqlstore.Node
	body   string
}

// Check implements [segno.Checker]. It reads one snapshot of the rows of the store or its tenant, and then their bodies
// in the bucket, while other processes use the store. It keeps the snapshot open while it reads the rows.
func (s *Store) Check(ctx context.Context, p segno.CheckPolicy, report func(error) bool) (segno.Checked, error) {
	const op = "check"
	k := &checker{s: s, ctx: ctx, Check: sqlstore.Check{Report: report, Stored: map[segno.Hash]bool{}}}
	err := s.once(ctx, op, s.name, func(ctx context.Context) error {
		err := pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			k.on = querier{s, tx}
			for _, check := range []func() error{k.checkThreads, k.checkCommits, k.checkRecords, k.checkObjects} {
				if err := check(); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = k.checkBodies()
		}
		return err
	})
	if err == nil {
		err = k.References(ctx, s, &s.records, p) // the policy calls the store, so no call may be in progress
	}
	if errors.Is(err, sqlstore.ErrStopped) {
		err = nil
	}
	return k.Checked, err
}

// each scans each row of a query into dest and calls do, which returns the damage of the row.
func (k *checker) each(query string, dest []any, do func() error) error {
	return k.on.Query(k.ctx, query, nil, dest, func() error { return cmp.Or(k.Verdict(do()), k.ctx.Err()) })
}

func (k *checker) checkThreads() error {
	var id, session []byte
	var rec []byte
	var isComplete bool
	return k.each(`SELECT t.id, t.record, t.session, t.hidden OR (t.head = ''::bytea OR h.line IS NOT NULL AND p.line IS NOT NULL)
			AND (t.link IS NULL OR EXISTS (SELECT FROM {}links l WHERE l.thread = t.n AND l.seq = t.link))
			AND t.seq = (SELECT max(c.seq) FROM {}commits c WHERE c.thread = t.n) AND t.seq = (SELECT count(*) FROM {}commits c WHERE c.thread = t.n)
		FROM {}threads t LEFT JOIN {}commits h ON h.id = t.head LEFT JOIN {}commits p ON p.id = t.tip`,
		[]any{&id, &rec, &session, &isComplete}, func() error {
			k.Threads++
			thread := segno.ThreadID(id)
			_, err := k.s.records.Thread(thread, rec)
			if err == nil {
				_, err = k.s.records.Link(thread, session, "head link", string(thread))
			}
			if err == nil && !isComplete {
				err = k.s.records.Corrupt("check thread", string(id), errors.New("its head, its tip, its head session or a commit is missing"))
			}
			return err
		})
}

// checkCommits decodes every node and verifies its place: one deeper than its parent, on the parent's line or
// the first node of a new line, and later in its thread. The id and the thread of each commit must exist.
func (k *checker) checkCommits() error {
	var id, thread, parent []byte
	var n sqlstore.Node
	var isPlaced bool
	return k.each(`SELECT c.id, c.seq, t.id, p.id, c.checkpoint, c.entries, c.body, t.n IS NOT NULL AND
			CASE WHEN c.parent IS NULL THEN c.depth = 0 AND c.line = c.n
			ELSE coalesce(c.depth = p.depth + 1 AND (c.line = p.line OR c.line = c.n) AND (c.thread <> p.thread OR c.seq > p.seq), false) END
		FROM {}commits c LEFT JOIN {}threads t ON t.n = c.thread LEFT JOIN {}commits p ON p.n = c.parent
		WHERE c.line IS NOT NULL`, []any{&id, &n.Seq, &thread, &parent, &n.Records[sqlstore.Checkpoint], &n.Records[sqlstore.Entries],
		&n.Body, &isPlaced}, func() error {
		n.ID, n.Thread, n.Parent = segno.CommitID(id), segno.ThreadID(thread), segno.CommitID(parent)
		if !isPlaced {
			return k.s.records.Corrupt("check commit", string(id), errors.New("its parent is not the commit before it, or its thread is missing"))
		}
		var c *segno.Checkpoint
		var err error
		if n.Body != nil {
			k.bodies = append(k.bodies, bodyOwner{node: n, body: *n.Body})
			c, err = k.s.records.Checkpoint(n.Records[sqlstore.Checkpoint], n.Node)
		} else {
			var line segno.Node
			line, err = k.s.records.DecodeOne(n)
			c = line.Checkpoint
		}
		if err == nil && c != nil {
			k.Checkpoints++
			k.Roots = append(k.Roots, c)
		}
		return k.s.records.Corrupt("check commit", string(id), err)
	})
}

// checkRecords decodes the records of links, operations, workspaces and pins.
func (k *checker) checkRecords() error {
	var id, other, rec []byte
	records := &k.s.records
	for query, decode := range map[string]func() error{
		`SELECT t.id, c.id, l.record FROM {}links l LEFT JOIN {}threads t ON t.n = l.thread LEFT JOIN {}commits c ON c.thread = l.thread AND c.seq = l.seq`: func() error {
			_, err := records.Link(segno.ThreadID(id), rec, "link", string(id), string(other))
			return err
		},
		`SELECT id, workspace, record FROM {}operations`: func() error {
			_, err := records.Operation(segno.OperationID(id), segno.WorkspaceID(other), rec)
			return err
		},
		`SELECT id, ''::bytea, record FROM {}workspaces WHERE record IS NOT NULL`: func() error {
			_, err := records.Workspace(segno.WorkspaceID(id), rec, nil)
			return err
		},
		`SELECT id, ''::bytea, state FROM {}workspaces WHERE state IS NOT NULL`: func() error {
			_, err := records.State(segno.WorkspaceID(id), rec)
			return err
		},
		`SELECT c.id, ''::bytea, p.name FROM {}pins p LEFT JOIN {}commits c ON c.n = p.n AND c.checkpoint IS NOT NULL`: func() error {
			if id == nil {
				return records.Corrupt("check pin", "", errors.New("its checkpoint is missing"))
			}
			_, err := records.Pin(segno.CommitID(id), rec)
			return err
		},
	} {
		if err := k.each(query, []any{&id, &other, &rec}, decode); err != nil {
			return err
		}
	}
	return nil
}

// checkObjects reads and hashes every object that is in the database.
func (k *checker) checkObjects() error {
	var raw, data []byte
	var size int64
	var body string
	return k.each(`SELECT o.name, o.size, coalesce(o.data, b.data), coalesce(o.body, '') FROM {}objects o LEFT JOIN {}bodies b ON b.name = o.body`,
		[]any{&raw, &size, &data, &body}, func() error {
			k.Objects++
			k.Bytes += size
			name := segno.Hash(raw)
			k.Stored[name] = true
			if data == nil && body != "" {
				k.bodies = append(k.bodies, bodyOwner{object: name, size: size, body: body})
				return nil
			}
			_, err := k.s.records.DecodeObject(name, name, size, data)
			return err
		})
}

// checkBodies reads the bodies that the rows name.
func (k *checker) checkBodies() error {
	for _, b := range k.bodies {
		err := k.checkBody(&b)
		if segno.KindOf(err) == segno.KindCorrupt {
			// A collection may have deleted the row and its body after the snapshot.
			named, nowErr := k.isNamed(b.body)
			if nowErr != nil {
				return nowErr
			}
			if named {
				err = k.Verdict(err)
			} else {
				err = nil
			}
		}
		if err = cmp.Or(err, k.ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

func (k *checker) checkBody(b *bodyOwner) error {
	if b.object.IsZero() {
		data, err := k.s.readEntriesBody(k.ctx, string(b.node.ID), b.body)
		if err == nil {
			b.node.Records[sqlstore.Entries] = data
			_, err = k.s.records.DecodeOne(b.node)
		}
		return err
	}
	data, err := k.s.getBody(k.ctx, "check object", b.object.String(), b.body)
	if err == nil {
		_, err = k.s.records.DecodeObject(b.object, b.object, b.size, data)
	}
	return err
}

// isNamed reports whether a row names a body.
func (k *checker) isNamed(body string) (named bool, err error) {
	err = k.s.db.QueryRow(k.ctx, k.s.sql(`SELECT EXISTS (SELECT FROM {}objects WHERE body = $1) OR EXISTS (SELECT FROM {}commits WHERE body = $1)`),
		body).Scan(&named)
	return named, err
}
