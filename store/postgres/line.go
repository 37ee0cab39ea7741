package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// loadLine returns the nodes of a line whose depth is at least low. It follows the ancestry one segment at a
// time: from a node to the first node of its line, whose number is the number of the line, and then to the
// parent of that node, which is on another line. The nodes of a segment belong to one thread. A node's
// parent is the node before it, except for the node at depth low. LATERAL and OFFSET 0 prevent the planner
// from reading whole tables.
const loadLine = `
WITH RECURSIVE
	segment(line, thread, top, low) AS (
		SELECT line, thread, depth, CASE WHEN $2::bigint > 0 THEN greatest(depth - $2::bigint + 1, 0) ELSE 0 END
		FROM {}commits WHERE id = $1 AND line IS NOT NULL
		UNION ALL
		SELECT p.line, p.thread, p.depth, s.low
		FROM segment s,
			LATERAL (SELECT parent, depth FROM {}commits WHERE n = s.line OFFSET 0) f,
			LATERAL (SELECT line, thread, depth FROM {}commits WHERE n = f.parent OFFSET 0) p
		WHERE f.depth > s.low),
	named AS MATERIALIZED (SELECT line, top, low, (SELECT id FROM {}threads t WHERE t.n = s.thread) AS thread FROM segment s)
SELECT c.id, c.depth, c.seq, c.checkpoint, c.entries, c.body, s.thread,
	CASE WHEN c.depth = s.low THEN (SELECT p.id FROM {}commits p WHERE p.n = c.parent) END, c.parent IS NULL
FROM named s, LATERAL (
	SELECT id, depth, seq, parent, checkpoint, CASE WHEN $3::bool OR checkpoint IS NULL THEN entries END AS entries,
		CASE WHEN $3::bool OR checkpoint IS NULL THEN body END AS body
	FROM {}commits c WHERE c.line = s.line AND c.depth BETWEEN s.low AND s.top OFFSET 0) c`

// Load implements [segno.Store].
func (s *Store) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	const op = "load"
	if err := ledger.CheckWindow(at, w); err != nil {
		return nil, err
	}
	var nodes []sqlstore.Node
	err := s.call(ctx, op, string(at), func(ctx context.Context) (err error) {
		if nodes, err = s.readLine(ctx, at, w); err == nil && w.Entries {
			err = s.readBodies(ctx, nodes)
		}
		return err
	})
	if err == nil && len(nodes) == 0 {
		err = s.missingCommit(ctx, op, at)
	}
	if err == nil {
		err = s.records.Arrange(at, w.Last, nodes)
	}
	if err != nil {
		return nil, err
	}
	return s.records.Decode(nodes, w.Entries, false)
}

// missingCommit returns the error for a commit that does not exist or is not on a line. If it is the head of
// a thread, the commit was lost.
func (s *Store) missingCommit(ctx context.Context, op string, at segno.CommitID) error {
	var isHead bool
	err := sqlstore.ReadRow(ctx, database{s}, op, string(at), `SELECT EXISTS (SELECT FROM {}threads WHERE (head = $1 OR tip = $1)
		AND NOT hidden)`, []any{[]byte(at)}, &isHead)
	switch {
	case err != nil:
		return err
	case isHead:
		return s.records.Corrupt(op, string(at), errors.New("it is the head of a thread and is missing"))
	}
	return notFound(op, string(at))
}

func (s *Store) readLine(ctx context.Context, at segno.CommitID, w segno.Window) (nodes []sqlstore.Node, err error) {
	var id, thread, parent []byte
	var last segno.ThreadID // many nodes belong to few threads, so nodes share the ids
	var n sqlstore.Node
	err = querier{s, s.db}.Query(ctx, loadLine, []any{[]byte(at), w.Last, w.Entries}, []any{&id, &n.Depth, &n.Seq,
		&n.Records[sqlstore.Checkpoint], &n.Records[sqlstore.Entries], &n.Body, &thread, &parent, &n.IsRoot}, func() error {
		if string(last) != string(thread) {
			last = segno.ThreadID(thread)
		}
		n.ID, n.Thread, n.Parent = segno.CommitID(id), last, segno.CommitID(parent)
		nodes = append(nodes, n)
		return nil
	})
	return nodes, err
}

// readBodies reads the entries that are stored in bodies, a few at a time.
func (s *Store) readBodies(ctx context.Context, nodes []sqlstore.Node) error {
	const atOnce = 8
	var group sync.WaitGroup
	errs := make([]error, len(nodes))
	slots := make(chan struct{}, atOnce)
	for i := range nodes {
		n := &nodes[i]
		if n.Body == nil {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			n.Records[sqlstore.Entries], errs[i] = s.readEntriesBody(ctx, string(n.ID), *n.Body)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (s *Store) readEntriesBody(ctx context.Context, commit, name string) ([]byte, error) {
	const op = "read entries"
	data, err := s.getBody(ctx, op, commit, name)
	if err != nil {
		return nil, err
	}
	want, _, err := parseBodyName(name)
	if err == nil && segno.HashOf(data) != want {
		err = fmt.Errorf("its body %s does not have the hash in its name", name)
	}
	return data, s.records.Corrupt(op, commit, err)
}
