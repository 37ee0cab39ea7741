package postgres

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
	"github.com/jackc/pgx/v5"
)

// Erase implements [segno.Eraser]. The package comment lists the copies that PostgreSQL and
// the bucket keep after it. A process that was killed within Erase may leave bodies that no
// row names; a collection removes them after a day.
func (s *Store) Erase(ctx context.Context, p segno.CollectPolicy) (done segno.Collection, err error) {
	const op = "erase"
	if err := s.enter(ctx, op); err != nil {
		return done, err
	}
	defer s.calls.Done()
	x := s.newCollection()
	x.erasing = &erasing{began: s.options.now(), objects: map[segno.Hash]bool{}, young: map[segno.Hash]int64{}}
	done, err = s.collect(ctx, x, &p)
	if err == nil && !p.DryRun {
		err = s.eraseBodies(ctx, x.bodies)
	}
	return done, s.fail(ctx, op, s.name, err)
}

// erasing is what an erasure drops beside what a collection drops.
type erasing struct {
	began   time.Time
	objects map[segno.Hash]bool  // that deleted threads reach, by their names in the database
	young   map[segno.Hash]int64 // objects that a collection leaves for their age, and their bytes
	bodies  []string             // of dropped records
}

// traceDeleted finds the objects that deleted threads and their workspaces reach. What is
// kept has been traced before.
func (g *graph) traceDeleted(ctx context.Context, o segno.Objects, p *segno.CollectPolicy, e *erasing) error {
	visit := func(h segno.Hash) bool {
		named := g.seal.Hash("object", h)
		_, reached := g.reached[named]
		if h.IsZero() || reached || e.objects[named] {
			return false
		}
		e.objects[named] = true
		return true
	}
	var all []*segno.Checkpoint
	for _, node := range g.nodes {
		if node.hidden && !node.kept && node.checkpoint != nil {
			all = append(all, node.checkpoint)
		}
	}
	for _, snap := range g.left {
		all = append(all, &segno.Checkpoint{Workspace: snap})
	}
	for _, c := range all {
		if p.Trace != nil {
			if err := p.Trace(ctx, o, *c, visit); err != nil {
				return err
			}
		}
		for _, h := range c.Refs() {
			visit(h)
		}
	}
	return nil
}

// countYoung counts what eraseYoung would drop.
func (x *collection) countYoung() {
	if x.erasing == nil {
		return
	}
	for h, bytes := range x.young {
		if _, reached := x.reached[h]; !reached && x.erasing.objects[h] {
			x.Objects, x.Kept, x.Bytes = x.Objects+1, x.Kept-1, x.Bytes+bytes
		}
	}
}

// eraseYoung drops the objects that only deleted threads reach and that are too young for a
// collection. One that was kept again since the erasure began stays.
func (x *collection) eraseYoung(ctx context.Context, s *Store, tx pgx.Tx) error {
	var names [][]byte
	for h := range x.young {
		if _, reached := x.reached[h]; !reached && x.erasing.objects[h] {
			names = append(names, h[:])
		}
	}
	return s.each(ctx, tx, `DELETE FROM {}objects WHERE name = ANY($1::bytea[]) AND born <= $2 RETURNING name, coalesce(body, '')`,
		[]any{names, x.began.Unix()}, func(r pgx.Rows) error {
			var name []byte
			var body string
			err := r.Scan(&name, &body)
			x.bodies = append(x.bodies, body)
			x.Objects, x.Kept, x.Bytes = x.Objects+1, x.Kept-1, x.Bytes+x.young[segno.Hash(name)]
			return err
		})
}

// bodiesOf notes the bodies of nodes and objects that are about to be dropped.
func (e *erasing) bodiesOf(ctx context.Context, s *Store, tx pgx.Tx, nodes []int64, objects [][]byte) error {
	return s.each(ctx, tx, `SELECT body FROM {}commits WHERE n = ANY($1::bigint[]) AND body IS NOT NULL
		UNION ALL SELECT body FROM {}objects WHERE name = ANY($2::bytea[]) AND body IS NOT NULL`, []any{nodes, objects}, func(r pgx.Rows) error {
		var body string
		err := r.Scan(&body)
		e.bodies = append(e.bodies, body)
		return err
	})
}

// eraseThreads drops what is beside the tree of deleted threads. Of a thread its id stays.
func (x *collection) eraseThreads(ctx context.Context, s *Store, tx pgx.Tx) error {
	for id := range x.deleted {
		rec, err := record.EncodeThread(&segno.Thread{ID: id})
		if err != nil {
			return err
		}
		rec = s.seal.Seal(rec, "thread", string(id))
		if _, err := tx.Exec(ctx, s.sql(`UPDATE {}threads SET record = $1, link = NULL, session = NULL, owner = NULL, expires = NULL WHERE id = $2 AND hidden`), rec, []byte(id)); err != nil {
			return err
		}
	}
	for _, do := range []struct {
		query string
		args  []any
	}{
		{`DELETE FROM {}links WHERE thread IN (SELECT n FROM {}threads WHERE hidden)`, nil},
		{`DELETE FROM {}operations WHERE id = ANY($1::bytea[])`, []any{x.operations}},
		{`UPDATE {}workspaces SET state = NULL WHERE id = ANY($1::bytea[])`, []any{x.leftIn}},
	} {
		if _, err := tx.Exec(ctx, s.sql(do.query), do.args...); err != nil {
			return err
		}
	}
	return nil
}

// eraseBodies drops bodies whose rows are gone.
func (s *Store) eraseBodies(ctx context.Context, names []string) error {
	dead, err := s.unnamedBodies(ctx, names)
	if err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, s.sql(`DELETE FROM {}bodies WHERE name = ANY($1::text[])`), dead); err != nil || s.options.Bucket == nil {
		return err
	}
	return s.deleteFromBucket(ctx, "erase body", dead)
}

// unnamedBodies are those of names that no row has.
func (s *Store) unnamedBodies(ctx context.Context, names []string) ([]string, error) {
	rows, err := s.pool.Query(ctx, s.sql(`SELECT x FROM unnest($1::text[]) x WHERE x <> '' AND NOT EXISTS (SELECT FROM {}objects WHERE body = x)
		AND NOT EXISTS (SELECT FROM {}commits WHERE body = x)`), names)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (s *Store) deleteFromBucket(ctx context.Context, op string, names []string) error {
	for _, name := range names {
		if err := s.options.Bucket.Delete(ctx, name); err != nil {
			return s.inBucket(op, name, err)
		}
	}
	return nil
}
