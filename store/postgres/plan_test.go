package postgres

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// listener records the statements that a store sends.
type listener struct {
	mu    sync.Mutex
	heard map[string]int // and how many parameters they have
}

func (l *listener) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard[data.SQL] = len(data.Args)
	return ctx
}

func (l *listener) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		l.TraceQueryStart(ctx, nil, pgx.TraceQueryStartData{SQL: q.SQL, Args: q.Arguments})
	}
	return ctx
}

func (l *listener) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (l *listener) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func (l *listener) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// largeStore creates a large store without using the package: 3,000 threads of 10 commits.
const largeStore = `
INSERT INTO {}threads (id, head, tip, seq, turn, changed, record)
	SELECT convert_to('thread ' || i, 'UTF8'), '', '', 1, 1, i, '' FROM generate_series(1, 3000) i;
INSERT INTO {}commits (n, thread, seq, parent, line, turn, depth, id, digest, checkpoint, entries)
	SELECT 1000000 + t.n * 1000 + i, t.n, i, 1000000 + t.n * 1000 + i - 1, 1000001 + t.n * 1000, 1, i, convert_to('thread ' || t.n || ' ' || i, 'UTF8'), '', '\x00', NULL
	FROM {}threads t, generate_series(1, 10) i WHERE t.id <> 'thread';
INSERT INTO {}terms (term, n) SELECT n % 1000, n FROM {}commits WHERE n > 1000000;
INSERT INTO {}links (thread, seq, session, record) SELECT n, 1, decode(md5(n::text), 'hex'), '' FROM {}threads WHERE id <> 'thread';
INSERT INTO {}objects (name, size, born, data) SELECT sha256(convert_to(i::text, 'UTF8')), 1, 1, '\x00' FROM generate_series(1, 5000) i;
INSERT INTO {}operations (n, id, workspace, record) SELECT i, convert_to(i::text, 'UTF8'), convert_to((i % 50)::text, 'UTF8'), '' FROM generate_series(1, 5000) i;
SELECT setval('{}commit_numbers', 5000000)`

// TestNoTableIsScanned verifies the plans of the store's queries: none scans a large table, with or without
// the server's statistics.
func TestNoTableIsScanned(t *testing.T) {
	withAndWithoutTenant(t, func(t *testing.T, open func(string, Options, func(*pgxpool.Config)) *Store) {
		l := &listener{heard: map[string]int{}}
		s := open("&plan_cache_mode=force_generic_plan&synchronous_commit=off", Options{}, func(c *pgxpool.Config) { c.ConnConfig.Tracer = l })
		fill(t, s, noise(600<<10))
		findScans(t, s, l)
	})
}

func findScans(t *testing.T, s *Store, l *listener) {
	set := fmt.Sprintf(`SET LOCAL segno.tenant = '%d';`, s.tenant)
	if _, err := s.pool.Exec(t.Context(), set+s.sql(largeStore), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	clear(l.heard)
	callAll(t, s)
	queries := maps.Clone(l.heard)
	maps.DeleteFunc(queries, func(query string, _ int) bool {
		return strings.HasPrefix(query, setTenant) || strings.Contains(query, "BEGIN;")
	})
	if len(queries) < 12 {
		t.Fatalf("%d statements were heard", len(queries))
	}
	scan := regexp.MustCompile(`Seq Scan on (commits|threads|terms|links|objects|operations|bodies)\b`)
	for _, statistics := range []string{"", "ANALYZE"} {
		if statistics != "" {
			for _, table := range []string{"threads", "commits", "terms", "links", "objects", "operations"} {
				execute(t, s, `ANALYZE {}`+table)
			}
		}
		for query, params := range queries {
			plan := explain(t, s, query, params)
			if found := scan.FindString(plan); found != "" {
				t.Errorf("%s %s:\n%s\n%s", statistics, found, query, plan)
			}
		}
	}
}

// callAll makes all calls that must not take longer in a larger store.
func callAll(t *testing.T, s *Store) {
	t.Helper()
	head, err := s.Head(t.Context(), "thread")
	if err != nil {
		t.Fatal(err)
	}
	c, err := turn(t.Context(), s, head, "another")
	if err != nil {
		t.Fatal(err)
	}
	c.Needs = []segno.Hash{segno.HashOf([]byte("object of next"))}
	c.Pin = &segno.Pin{Checkpoint: "next", Name: "a pin"}
	c.Link = &segno.Link{Session: "s"}
	c.Operation = &segno.Operation{ID: "op", Workspace: "w"}
	for range 2 {
		if _, err = s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Commit(t.Context(), segno.Commit{ID: "fork", Thread: "fork", Create: &segno.Thread{ID: "fork",
		ParentThread: "thread"}, Parent: "next", Checkpoint: &segno.Checkpoint{}}); err != nil {
		t.Fatal(err)
	}
	if err := load(t.Context(), s, "fork"); err != nil {
		t.Fatal(err)
	}
	for _, q := range []segno.CheckpointQuery{{Thread: "thread", Limit: 10}, {Thread: "thread", Before: 3}, {Key: "key of next"},
		{Limit: 1}, {Pinned: true}, {Thread: "thread", Key: "key of next"}} {
		for _, err := range s.Checkpoints(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, q := range []segno.ThreadQuery{{Session: "s"}, {ParentThread: "thread"}, {IDPrefix: "for"}, {Workspace: "w"}} {
		for _, err := range s.Threads(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, err := range s.Chain(t.Context(), "thread") {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range s.Operations(t.Context(), "w") {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Release(t.Context(), take(t, s)); err != nil {
		t.Fatal(err)
	}
}

// explain returns the plan of a statement for any arguments.
func explain(t *testing.T, s *Store, query string, params int) string {
	t.Helper()
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	call := "asked"
	if params > 0 {
		call += "(" + strings.TrimSuffix(strings.Repeat("NULL,", params), ",") + ")"
	}
	results, err := conn.Conn().PgConn().Exec(t.Context(), "PREPARE asked AS "+query+"; EXPLAIN EXECUTE "+call+"; DEALLOCATE asked").
		ReadAll()
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
	var lines []string
	for _, r := range results {
		for _, row := range r.Rows {
			lines = append(lines, string(row[0]))
		}
	}
	return strings.Join(lines, "\n")
}
