package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/dalsegno/segno"
)

// grace is how long an object lives whatever reaches it: as long as a batch may
// take to its commit.
const grace = time.Hour

// Collect implements [segno.Collector]. Kept is what is reached from the heads
// and tips of threads, from all their nodes that were not amended, from pins,
// operations and workspaces, and from the policy's checkpoints. Without a Trace
// no object is dropped.
//
// Most of the work is done beside other writers: finding what is reached, and
// writing the live part of a pack that is mostly dead to a new one. Then one
// transaction looks again, at what came since, and drops the rest. Files go last.
func (s *Store) Collect(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.collect(ctx, "collect", &reach{s: s, p: p, seen: map[segno.Hash]struct{}{}})
}

// collect drops what nothing reaches.
func (s *Store) collect(ctx context.Context, op string, x *reach) (done segno.Collection, err error) {
	old := s.options.Clock().Add(-grace)
	var plan *dropping
	err = s.readApart(ctx, op, "", func(calm context.Context, c *conn) error {
		var err error
		plan, err = s.planDrop(calm, c, x, old)
		return err
	})
	if err != nil {
		return done, err
	}
	if x.p.DryRun {
		return plan.Collection, nil
	}
	packs := map[string]bool{} // those of an erasure go whatever their age
	for _, use := range plan.packs {
		packs[use.name] = x.erasing != nil
	}
	moves, err := s.rewritePacks(ctx, plan)
	if err != nil {
		return done, fail(op, "", err)
	}
	err = s.write(ctx, op, "", func(ctx context.Context, tx *conn) error {
		again, err := s.planDrop(ctx, tx, x, old)
		if err != nil {
			return err
		}
		done = again.Collection
		if err := again.drop(ctx, tx); err != nil {
			return err
		}
		return applyMoves(ctx, tx, moves, again.now)
	})
	if err != nil {
		return segno.Collection{}, err
	}
	return done, s.sweepPacks(ctx, old, packs)
}

// dropping is what a collection found to drop.
type dropping struct {
	segno.Collection
	erasing *erasing // nil unless deleted threads are erased
	now     int64
	nodes   []int64
	objects []stored
	packs   map[int64]*packUse
}

// stored is an object's row.
type stored struct {
	name         segno.Hash
	size         int64
	pack, at     int64
	length, born int64
}

// bytes is how many bytes the object takes.
func (o *stored) bytes() int64 {
	if o.pack == 0 {
		return o.length
	}
	return o.length >> encodingBits
}

// packUse says how much of a pack is reached.
type packUse struct {
	name       string
	born       int64
	live, dead int64 // bytes
	objects    []stored
}

func (s *Store) planDrop(ctx context.Context, c *conn, x *reach, old time.Time) (*dropping, error) {
	g, err := s.readGraph(ctx, c, x.p.Retain)
	if err != nil {
		return nil, err
	}
	for i := range x.p.Checkpoints {
		g.keepID(x.p.Checkpoints[i].ID)
		g.keepID(x.p.Checkpoints[i].Parent)
	}
	g.mark()
	if err := x.everything(ctx, c, g); err != nil {
		return nil, err
	}
	d := &dropping{now: s.options.Clock().Unix(), erasing: x.erasing, packs: map[int64]*packUse{}}
	for n, node := range g.nodes {
		if node.kept {
			continue
		}
		d.nodes = append(d.nodes, n)
		if node.checkpoint != nil {
			d.Checkpoints++
		}
	}
	return d, d.planObjects(ctx, c, x, old)
}

func (d *dropping) planObjects(ctx context.Context, c *conn, x *reach, old time.Time) error {
	err := c.rows(ctx, `SELECT n, name, born FROM packs`, nil, func(r *sql.Rows) error {
		var n int64
		u := new(packUse)
		err := r.Scan(&n, &u.name, &u.born)
		d.packs[n] = u
		return err
	})
	if err != nil {
		return err
	}
	return c.rows(ctx, `SELECT name, size, pack, at, length, born FROM objects`, nil, func(r *sql.Rows) error {
		var o stored
		var name sql.RawBytes
		if err := r.Scan(&name, &o.size, &o.pack, &o.at, &o.length, &o.born); err != nil {
			return err
		}
		o.name = segno.Hash(name)
		use := d.packs[o.pack]
		if use == nil {
			use = new(packUse) // a small one
		}
		if _, reached := x.seen[o.name]; reached || x.p.Trace == nil || o.born > old.Unix() && !x.erases(o.name) {
			d.Kept++
			use.live += o.bytes()
			if o.pack != 0 {
				use.objects = append(use.objects, o)
			}
			return nil
		}
		d.Objects++
		d.Bytes += o.bytes()
		use.dead += o.bytes()
		d.objects = append(d.objects, o)
		return nil
	})
}

// drop removes nodes and objects. Of a commit the id and the digest stay, so that
// a writer that asks again is not taken for a new one.
func (d *dropping) drop(ctx context.Context, tx *conn) error {
	if _, err := tx.exec(ctx, `PRAGMA secure_delete = ON`); err != nil {
		return err
	}
	for _, n := range d.nodes {
		for _, query := range []string{
			`UPDATE commits SET line = NULL, depth = NULL, checkpoint = NULL, entries = NULL WHERE n = ?`,
			`DELETE FROM terms WHERE n = ?`,
		} {
			if _, err := tx.exec(ctx, query, n); err != nil {
				return err
			}
		}
	}
	for i := range d.objects {
		o := &d.objects[i]
		if _, err := tx.exec(ctx, `DELETE FROM objects WHERE name = ?`, o.name[:]); err != nil {
			return err
		}
		if o.pack != 0 {
			continue
		}
		if _, err := tx.exec(ctx, `DELETE FROM small WHERE n = ?`, o.at); err != nil {
			return err
		}
	}
	if err := d.erasing.drop(ctx, tx); err != nil {
		return err
	}
	for _, query := range []string{
		`DELETE FROM links WHERE thread IN (SELECT n FROM threads t WHERE hidden
			AND NOT EXISTS (SELECT 1 FROM commits c WHERE c.thread = t.n AND c.line IS NOT NULL))`,
		`DELETE FROM packs WHERE NOT EXISTS (SELECT 1 FROM objects o WHERE o.pack = packs.n)`,
	} {
		if _, err := tx.exec(ctx, query); err != nil {
			return err
		}
	}
	return nil
}
