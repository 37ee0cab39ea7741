package postgres

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/sqlstore"
	"github.com/jackc/pgx/v5"
)

// minAge is the age below which a collection keeps every object, because a batch may take that long until its
// commit.
const minAge = time.Hour

// Collect implements [segno.Collector]. It keeps the commits and objects that the heads and tips of threads
// reach, all their nodes that were not amended, pins, operations and workspaces, and the checkpoints of the
// policy. Without a Trace, it drops no object.
//
// Collect reads and traces while other writers work, then locks them out for a moment. If they added nothing
// that must be traced, it deletes the rest. Otherwise it traces the additions and locks the writers out
// again. It deletes bodies last, a day after the rows that named them.
func (s *Store) Collect(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.collect(ctx, "collect", &p, false, func(*collection) error {
		return s.sweepBodies(ctx, s.options.now().Add(-bodyLife-time.Hour))
	})
}

// Erase implements [segno.Eraser]. The package comment lists the copies that remain in PostgreSQL and in the
// bucket. A process that is killed during Erase may leave bodies that no row names; a collection deletes them
// after a day.
func (s *Store) Erase(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.collect(ctx, "erase", &p, true, func(x *collection) error {
		return s.deleteBodies(ctx, "erase body", x.bodies)
	})
}

func (s *Store) collect(ctx context.Context, op string, p *segno.CollectPolicy, erase bool,
	deleteBodies func(*collection) error) (segno.Collection, error) {
	now := s.options.now()
	x := &collection{s: s, Graph: sqlstore.NewGraph(s.common, p, erase), old: now.Add(-minAge).Unix(), start: now.Unix()}
	err := s.once(ctx, op, s.name, func(ctx context.Context) error {
		err := x.run(ctx, p)
		if err == nil && !p.DryRun {
			err = deleteBodies(x)
		}
		return err
	})
	return x.Collection, err
}

// collection is a run of Collect or Erase.
type collection struct {
	*sqlstore.Graph
	segno.Collection

	s          *Store
	old, start int64                 // objects younger than old are kept; in an erasure, those younger than start
	objects    map[segno.Hash]stored // by their names in the database; nil until they are read
	bodies     []string              // the bodies of the rows that an erasure deleted
}

type stored struct {
	bytes int64
	isOld bool
}

func (x *collection) run(ctx context.Context, p *segno.CollectPolicy) error {
	var known int64 // the graph includes the commits up to this number
	err := x.s.exclusively(ctx, func(_ pgx.Tx, last int64) error {
		known = last
		return nil
	})
	if err == nil {
		err = x.Read(ctx, querier{x.s, x.s.db}, 0)
	}
	if err != nil {
		return err
	}
	const rounds = 20
	for range rounds {
		x.Mark()
		if err := x.Trace(ctx); err != nil {
			return err
		}
		if x.objects == nil && p.Trace != nil {
			if err := x.readObjects(ctx); err != nil {
				return err
			}
		}
		if p.DryRun {
			x.count()
			return nil
		}
		mustTrace := false
		err := x.s.exclusively(ctx, func(tx pgx.Tx, last int64) error {
			if err := x.Read(ctx, querier{x.s, tx}, known); err != nil {
				return err
			}
			if known, mustTrace = last, x.Mark(); mustTrace {
				return nil
			}
			return x.delete(ctx, tx)
		})
		if err != nil || !mustTrace {
			return err
		}
	}
	x.Collection = segno.Collection{}
	return segno.Errorf(segno.KindBusy, "collect", x.s.name, "other writers added data during each attempt").
		WithHint("try again when fewer processes write")
}

// exclusively runs f while no other process commits or keeps objects. Commits with numbers up to last are
// finished or will never exist.
func (s *Store) exclusively(ctx context.Context, f func(tx pgx.Tx, last int64) error) error {
	db, lock := s.db, `LOCK TABLE {}threads, {}objects IN EXCLUSIVE MODE`
	if t, ok := db.(tenantConns); ok { // the beginning of the transaction takes the lock of the tenant
		t.begin, lock = "pg_advisory_xact_lock", ""
		db = t
	}
	return pgx.BeginTxFunc(ctx, db, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if lock != "" {
			if _, err := tx.Exec(ctx, s.sql(lock)); err != nil {
				return err
			}
		}
		var last int64
		if err := tx.QueryRow(ctx, s.sql(`SELECT last_value FROM {}commit_numbers`)).Scan(&last); err != nil {
			return err
		}
		return f(tx, last)
	})
}

func (x *collection) readObjects(ctx context.Context) error {
	x.objects = map[segno.Hash]stored{}
	var name []byte
	var o stored
	return querier{x.s, x.s.db}.Query(ctx, `SELECT o.name, o.born <= $1, coalesce(octet_length(o.data), octet_length(b.data), o.size)::bigint
		FROM {}objects o LEFT JOIN {}bodies b ON b.name = o.body`, []any{x.old}, []any{&name, &o.isOld, &o.bytes}, func() error {
		x.objects[segno.Hash(name)] = o
		return nil
	})
}

// count counts and returns the nodes and the old objects that are not kept, and the young objects that an
// erasure deletes.
func (x *collection) count() (nodes []*sqlstore.GraphNode, old, young [][]byte) {
	x.Collection = segno.Collection{Kept: len(x.objects)}
	nodes, x.Checkpoints = x.Unreachable()
	for name, o := range x.objects {
		switch {
		case !x.Drops(name, o.isOld):
			continue
		case o.isOld:
			old = append(old, name[:])
		default:
			young = append(young, name[:])
		}
		x.Objects, x.Kept, x.Bytes = x.Objects+1, x.Kept-1, x.Bytes+o.bytes
	}
	return nodes, old, young
}

// delete deletes nodes and objects. The id and the digest of a commit remain, so that a repeated commit is
// not applied as a new one.
func (x *collection) delete(ctx context.Context, tx pgx.Tx) error {
	nodes, old, young := x.count()
	var numbers, terms, termNumbers []int64
	for _, n := range nodes {
		numbers = append(numbers, n.Row)
		for _, term := range x.s.records.Sealer.Terms(n.Checkpoint) {
			terms, termNumbers = append(terms, term), append(termNumbers, n.Row)
		}
	}
	if x.Erasure != nil {
		if err := x.erase(ctx, tx, numbers); err != nil {
			return err
		}
	}
	if err := x.s.execAll(ctx, tx, []change{
		{`UPDATE {}commits SET line = NULL, depth = NULL, checkpoint = NULL, entries = NULL, body = NULL WHERE n = ANY($1::bigint[])`,
			[]any{numbers}},
		{`DELETE FROM {}terms t USING unnest($1::bigint[], $2::bigint[]) AS x(term, n) WHERE t.term = x.term AND t.n = x.n`,
			[]any{terms, termNumbers}},
		{`DELETE FROM {}links WHERE thread IN (SELECT n FROM {}threads t WHERE hidden
			AND NOT EXISTS (SELECT FROM {}commits c WHERE c.thread = t.n AND c.line IS NOT NULL))`, nil},
	}); err != nil {
		return err
	}
	if err := x.deleteObjects(ctx, tx, old, x.old); err != nil {
		return err
	}
	return x.deleteObjects(ctx, tx, young, x.start)
}

// deleteObjects deletes objects, except those that were kept again after since.
func (x *collection) deleteObjects(ctx context.Context, tx pgx.Tx, names [][]byte, since int64) error {
	isDeleted := make(map[segno.Hash]bool, len(names))
	var name []byte
	var body string
	err := querier{x.s, tx}.Query(ctx, `DELETE FROM {}objects WHERE name = ANY($1::bytea[]) AND born <= $2
		RETURNING name, coalesce(body, '')`, []any{names, since}, []any{&name, &body}, func() error {
		isDeleted[segno.Hash(name)] = true
		if x.Erasure != nil {
			x.bodies = append(x.bodies, body)
		}
		return nil
	})
	for _, name := range names {
		if !isDeleted[segno.Hash(name)] {
			x.Objects, x.Kept, x.Bytes = x.Objects-1, x.Kept+1, x.Bytes-x.objects[segno.Hash(name)].bytes
		}
	}
	return err
}

// erase deletes the records of deleted threads except for their nodes, and records the bodies of nodes that
// will be deleted. The id of a thread remains.
func (x *collection) erase(ctx context.Context, tx pgx.Tx, nodes []int64) error {
	var body string
	err := querier{x.s, tx}.Query(ctx, `SELECT body FROM {}commits WHERE n = ANY($1::bigint[]) AND body IS NOT NULL`, []any{nodes},
		[]any{&body}, func() error {
			x.bodies = append(x.bodies, body)
			return nil
		})
	if err != nil {
		return err
	}
	var changes []change
	for _, id := range x.Erasure.Threads {
		changes = append(changes, change{`UPDATE {}threads SET record = $1, link = NULL, session = NULL, owner = NULL, expires = NULL
			WHERE id = $2 AND hidden`,
			[]any{x.s.records.ErasedThread(id), []byte(id)}})
	}
	return x.s.execAll(ctx, tx, append(changes,
		change{`DELETE FROM {}links WHERE thread IN (SELECT n FROM {}threads WHERE hidden)`, nil},
		change{`DELETE FROM {}operations WHERE id = ANY($1::bytea[])`, []any{idList(x.Erasure.Operations)}},
		change{`UPDATE {}workspaces SET state = NULL WHERE id = ANY($1::bytea[])`, []any{idList(x.Erasure.Workspaces)}}))
}

// change is a statement and its arguments.
type change struct {
	query string
	args  []any
}

func (s *Store) execAll(ctx context.Context, tx pgx.Tx, changes []change) error {
	for _, c := range changes {
		if _, err := tx.Exec(ctx, s.sql(c.query), c.args...); err != nil {
			return err
		}
	}
	return nil
}

func idList[T ~string](ids []T) (list [][]byte) {
	for _, id := range ids {
		list = append(list, []byte(id))
	}
	return list
}
