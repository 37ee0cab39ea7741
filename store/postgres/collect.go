package postgres

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
)

// grace is how long an object lives whatever reaches it: as long as a batch may take to
// its commit.
const grace = time.Hour

// Collect implements [segno.Collector]. Kept is what is reached from the heads and tips
// of threads, from all their nodes that were not amended, from pins, operations and
// workspaces, and from the policy's checkpoints. Without a Trace no object is dropped.
//
// Reading and tracing is done beside other writers. Then they are kept out for a moment:
// if they brought nothing that has to be traced, the rest is dropped, else it is traced
// and they are kept out again. Bodies go last, and a day later.
func (s *Store) Collect(ctx context.Context, p segno.CollectPolicy) (done segno.Collection, err error) {
	const op = "collect"
	if err := s.enter(ctx, op); err != nil {
		return done, err
	}
	defer s.calls.Done()
	done, err = s.collect(ctx, s.newCollection(), &p)
	if err == nil && !p.DryRun {
		err = s.sweepBodies(ctx, s.options.now().Add(-bodyLife-time.Hour))
	}
	return done, s.fail(ctx, op, s.name, err)
}

// collection is one run of Collect.
type collection struct {
	segno.Collection
	graph
	old     int64 // objects born later stay
	dead    map[segno.Hash]int64
	present int
}

func (s *Store) newCollection() *collection {
	return &collection{graph: graph{seal: s.seal, nodes: map[int64]*graphNode{}, ids: map[segno.CommitID]*graphNode{}, reached: map[segno.Hash]struct{}{}},
		old: s.options.now().Add(-grace).Unix()}
}

func (s *Store) collect(ctx context.Context, x *collection, p *segno.CollectPolicy) (segno.Collection, error) {
	x.retain = p.Retain
	var known int64
	err := s.alone(ctx, func(tx pgx.Tx, last int64) error {
		known = last
		return nil
	})
	if err == nil {
		err = x.read(ctx, s, s.pool, 0)
	}
	if err != nil {
		return x.Collection, err
	}
	for i := range p.Checkpoints {
		x.root(p.Checkpoints[i].ID, p.Checkpoints[i].Parent)
		x.waiting = append(x.waiting, &p.Checkpoints[i])
	}
	const rounds = 20
	for range rounds {
		x.mark()
		if err := x.trace(ctx, s.Objects(), p); err != nil {
			return x.Collection, err
		}
		if x.erasing != nil {
			if err := x.traceDeleted(ctx, s.Objects(), p, x.erasing); err != nil {
				return x.Collection, err
			}
		}
		if x.dead == nil && p.Trace != nil {
			if err := x.readObjects(ctx, s); err != nil {
				return x.Collection, err
			}
		}
		if p.DryRun {
			x.count()
			x.countYoung()
			return x.Collection, nil
		}
		more := false
		err := s.alone(ctx, func(tx pgx.Tx, last int64) error {
			if err := x.read(ctx, s, tx, known); err != nil {
				return err
			}
			if known, more = last, x.mark(); more {
				return nil
			}
			return x.drop(ctx, s, tx)
		})
		if err != nil || !more {
			return x.Collection, err
		}
	}
	return segno.Collection{}, segno.Errorf(segno.KindBusy, "collect", s.name, "other writers brought something new each time").WithHint("try again when there is less going on")
}

// alone keeps all commits and whoever keeps objects out while f runs. Commits with a
// number up to last are done or will never be.
func (s *Store) alone(ctx context.Context, f func(tx pgx.Tx, last int64) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.sql(`LOCK TABLE {}threads, {}objects IN EXCLUSIVE MODE`)); err != nil {
			return err
		}
		var last int64
		if err := tx.QueryRow(ctx, s.sql(`SELECT last_value FROM {}commit_numbers`)).Scan(&last); err != nil {
			return err
		}
		return f(tx, last)
	})
}

// readObjects finds the objects that are old enough to go.
func (x *collection) readObjects(ctx context.Context, s *Store) error {
	x.dead = map[segno.Hash]int64{}
	return s.each(ctx, s.pool, `SELECT o.name, o.born <= $1, coalesce(octet_length(o.data), octet_length(b.data), o.size)::bigint
		FROM {}objects o LEFT JOIN {}bodies b ON b.name = o.body`, []any{x.old}, func(r pgx.Rows) error {
		var name []byte
		var old bool
		var bytes int64
		if err := r.Scan(&name, &old, &bytes); err != nil {
			return err
		}
		x.present++
		switch {
		case old:
			x.dead[segno.Hash(name)] = bytes
		case x.erasing != nil:
			x.young[segno.Hash(name)] = bytes
		}
		return nil
	})
}

// count sums up what is not kept and returns it.
func (x *collection) count() (nodes []*graphNode, objects [][]byte) {
	x.Collection = segno.Collection{Kept: x.present}
	for _, node := range x.nodes {
		if node.kept {
			continue
		}
		nodes = append(nodes, node)
		if node.checkpoint != nil {
			x.Checkpoints++
		}
	}
	for h, bytes := range x.dead {
		if _, reached := x.reached[h]; reached {
			continue
		}
		objects = append(objects, h[:])
		x.Objects++
		x.Kept--
		x.Bytes += bytes
	}
	return nodes, objects
}

// drop removes nodes and objects. Of a commit the id and the digest stay, so that a
// writer that asks again is not taken for a new one.
func (x *collection) drop(ctx context.Context, s *Store, tx pgx.Tx) error {
	nodes, objects := x.count()
	var numbers, of, found []int64
	for _, node := range nodes {
		numbers = append(numbers, node.n)
		for _, t := range s.seal.Terms(node.checkpoint) {
			of, found = append(of, node.n), append(found, t)
		}
	}
	if x.erasing != nil {
		if err := x.bodiesOf(ctx, s, tx, numbers, objects); err != nil {
			return err
		}
		if err := x.eraseYoung(ctx, s, tx); err != nil {
			return err
		}
		if err := x.eraseThreads(ctx, s, tx); err != nil {
			return err
		}
	}
	for _, do := range []struct {
		query string
		args  []any
	}{
		{`UPDATE {}commits SET line = NULL, depth = NULL, checkpoint = NULL, entries = NULL, body = NULL WHERE n = ANY($1::bigint[])`, []any{numbers}},
		{`DELETE FROM {}terms t USING unnest($1::bigint[], $2::bigint[]) AS x(term, n) WHERE t.term = x.term AND t.n = x.n`, []any{found, of}},
		{`DELETE FROM {}links WHERE thread IN (SELECT n FROM {}threads t WHERE hidden
			AND NOT EXISTS (SELECT FROM {}commits c WHERE c.thread = t.n AND c.line IS NOT NULL))`, nil},
	} {
		if _, err := tx.Exec(ctx, s.sql(do.query), do.args...); err != nil {
			return err
		}
	}
	tag, err := tx.Exec(ctx, s.sql(`DELETE FROM {}objects WHERE name = ANY($1::bytea[]) AND born <= $2`), objects, x.old)
	if missed := len(objects) - int(tag.RowsAffected()); err == nil && missed > 0 {
		x.Objects, x.Kept = x.Objects-missed, x.Kept+missed // kept again meanwhile
	}
	return err
}

// sweepBodies drops bodies that no row names. Those that were written after old may be
// on their way into one.
func (s *Store) sweepBodies(ctx context.Context, old time.Time) error {
	_, err := s.pool.Exec(ctx, s.sql(`DELETE FROM {}bodies b WHERE born < $1 AND NOT EXISTS (SELECT FROM {}objects o WHERE o.body = b.name)
		AND NOT EXISTS (SELECT FROM {}commits c WHERE c.body = b.name)`), old.Unix())
	if err != nil || s.options.Bucket == nil {
		return err
	}
	return s.sweepBucket(ctx, old)
}
