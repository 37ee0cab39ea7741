package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// A line's ancestry is walked upwards, one segment of a line at a time: from a node to
// the first node of its line, whose number is the line's, to that one's parent on
// another line. One query does the walk and returns the segments' nodes that are at
// least low deep, with their thread, which a segment has in common, and their parent
// where it is not the node before. LATERAL and OFFSET 0 keep the planner from reading
// tables whole.
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
	SELECT id, depth, seq, parent, checkpoint, CASE WHEN $3::bool OR checkpoint IS NULL THEN entries END AS entries, CASE WHEN $3::bool OR checkpoint IS NULL THEN body END AS body
	FROM {}commits c WHERE c.line = s.line AND c.depth BETWEEN s.low AND s.top OFFSET 0) c`

// Load implements [segno.Store].
func (s *Store) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	const op = "load"
	if w.Last < 0 {
		return nil, invalid(op, string(at), errors.New("the window is negative"))
	}
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	var found []kept
	err := s.patiently(ctx, func(ctx context.Context) (err error) {
		found, err = s.readLine(ctx, at, w)
		return err
	})
	if err != nil {
		return nil, s.fail(ctx, op, string(at), err)
	}
	if len(found) == 0 {
		return nil, s.missed(ctx, op, at)
	}
	if found, err = arrange(at, found); err != nil {
		return nil, err
	}
	if first := &found[0]; first.root != (first.depth == 0) || first.root != (first.Parent == "") || !first.root && (w.Last == 0 || len(found) < w.Last) {
		return nil, corrupt(op, string(at), errors.New("the line has no beginning"))
	}
	if w.Entries {
		if err := s.readBodies(ctx, found); err != nil {
			return nil, s.fail(ctx, op, string(at), err)
		}
	}
	if err := s.expandAll(found, w.Entries); err != nil {
		return nil, err
	}
	line := &segno.Line{Commits: make([]segno.Node, len(found))}
	for i := range found {
		line.Commits[i] = found[i].Node
	}
	return line, nil
}

// missed returns the error for a commit that is not there, or that is on no line. It looks
// through all threads for one that has it as its head.
func (s *Store) missed(ctx context.Context, op string, at segno.CommitID) error {
	var isHead bool
	err := s.row(ctx, op, string(at), `SELECT EXISTS (SELECT FROM {}threads WHERE (head = $1 OR tip = $1) AND NOT hidden)`, []any{[]byte(at)}, &isHead)
	switch {
	case err != nil:
		return err
	case isHead:
		return corrupt(op, string(at), errors.New("it is the head of a thread and is missing"))
	}
	return notFound(op, string(at))
}

// kept is a node, its depth, and its records as they are kept.
type kept struct {
	depth               int64
	checkpoint, entries []byte
	body                *string
	root                bool // it has no parent
	segno.Node
}

func (s *Store) readLine(ctx context.Context, at segno.CommitID, w segno.Window) (found []kept, err error) {
	rows, err := s.pool.Query(ctx, s.sql(loadLine), []byte(at), w.Last, w.Entries)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var id, thread, parent []byte
	var last segno.ThreadID
	for rows.Next() {
		var n kept
		if err := rows.Scan(&id, &n.depth, &n.Seq, &n.checkpoint, &n.entries, &n.body, &thread, &parent, &n.root); err != nil {
			return nil, err
		}
		if string(last) != string(thread) {
			last = segno.ThreadID(thread)
		}
		n.ID, n.Thread, n.Parent = segno.CommitID(id), last, segno.CommitID(parent)
		found = append(found, n)
	}
	return found, rows.Err()
}

// readBodies fetches the entries that are bodies, a few at a time.
func (s *Store) readBodies(ctx context.Context, found []kept) error {
	const atOnce = 8
	var group sync.WaitGroup
	errs := make([]error, len(found))
	room := make(chan struct{}, atOnce)
	for i := range found {
		n := &found[i]
		if n.body == nil {
			continue
		}
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			n.entries, errs[i] = s.readEntriesBody(ctx, string(n.ID), *n.body)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (s *Store) readEntriesBody(ctx context.Context, id, name string) ([]byte, error) {
	const op = "read entries"
	data, err := s.getBody(ctx, op, id, name)
	if err != nil {
		return nil, err
	}
	want, _, err := readBodyName(name)
	if err == nil && segno.HashOf(data) != want {
		err = fmt.Errorf("its body %s is not what it was", name)
	}
	return data, damaged(op, id, err)
}

// expandAll decodes the records. That is most of what loading a long line costs here, so
// it is shared out.
func (s *Store) expandAll(found []kept, whole bool) error {
	const share = 64
	var group sync.WaitGroup
	errs := make([]error, (len(found)+share-1)/share)
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range errs {
		part := found[i*share : min(len(found), (i+1)*share)]
		if len(errs) == 1 {
			return s.expandPart(part, whole)
		}
		room <- struct{}{}
		group.Go(func() {
			errs[i] = s.expandPart(part, whole)
			<-room
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// expandPart decodes some of them; whole says that entries were asked for. A node proves
// that it has both its records, as far as they say. One without either nobody writes.
func (s *Store) expandPart(part []kept, whole bool) error {
	for i := range part {
		n := &part[i]
		checkpoint, err := s.unpack(n.checkpoint, "checkpoint", n.Node)
		if err == nil {
			n.Checkpoint, err = decodeCheckpoint(checkpoint, n.Node)
		}
		if err == nil && whole && n.entries == nil && record.HasOther(checkpoint) {
			return corrupt("read entries", string(n.ID), errors.New("they are missing"))
		}
		if err != nil {
			return corrupt("read checkpoint", string(n.ID), err)
		}
		entries, err := s.unpack(n.entries, "entries", n.Node)
		if err == nil && entries != nil {
			n.Entries, err = record.DecodeEntries(entries)
		}
		if err != nil {
			return corrupt("read entries", string(n.ID), err)
		}
		if checkpoint == nil && (entries == nil && (whole || n.body == nil) || record.HasOther(entries)) {
			return corrupt("read checkpoint", string(n.ID), errors.New("it is missing"))
		}
		if !whole {
			n.Entries = nil // they were not asked for
		}
	}
	return nil
}

// unpack opens and expands a node's record, nil for none. A sealed one proves the node's
// thread, id and parent.
func (s *Store) unpack(packed []byte, what string, at segno.Node) ([]byte, error) {
	if packed == nil {
		return nil, nil
	}
	packed, err := s.seal.Open(packed, what, string(at.Thread), string(at.ID), string(at.Parent))
	if err != nil {
		return nil, err
	}
	return s.squeeze.Unpack(packed)
}

// readCheckpoint decodes a packed checkpoint and adds what its row knows.
func (s *Store) readCheckpoint(packed []byte, at segno.Node) (*segno.Checkpoint, error) {
	rec, err := s.unpack(packed, "checkpoint", at)
	var c *segno.Checkpoint
	if err == nil {
		c, err = decodeCheckpoint(rec, at)
	}
	if err != nil {
		return nil, corrupt("read checkpoint", string(at.ID), err)
	}
	return c, nil
}

func decodeCheckpoint(rec []byte, at segno.Node) (*segno.Checkpoint, error) {
	if rec == nil {
		return nil, nil
	}
	c, err := record.DecodeCheckpoint(rec)
	if err != nil {
		return nil, err
	}
	c.ID, c.Thread, c.Parent, c.Seq = at.ID, at.Thread, at.Parent, at.Seq
	return c, nil
}

// arrange orders nodes by depth, gives each its parent, and proves that the line has no
// gap. The parent of the first of them was read.
func arrange(at segno.CommitID, found []kept) ([]kept, error) {
	low := found[0].depth
	for i := range found {
		low = min(low, found[i].depth)
	}
	line := make([]kept, len(found))
	for _, n := range found {
		i := n.depth - low
		if i >= int64(len(found)) || line[i].ID != "" {
			return nil, corrupt("load", string(at), errors.New("the line has a gap"))
		}
		line[i] = n
	}
	for i := 1; i < len(line); i++ {
		n, up := &line[i], &line[i-1]
		if n.Parent = up.ID; n.Thread == up.Thread && n.Seq <= up.Seq {
			return nil, corrupt("load", string(n.ID), errors.New("it does not follow the commit before it"))
		}
	}
	if line[len(found)-1].ID != at {
		return nil, corrupt("load", string(at), errors.New("the line does not end there"))
	}
	return line, nil
}
