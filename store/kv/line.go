package kv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/record"
)

// Load implements [segno.Store]. It takes one round trip for a commit that this store has read as
// a head or loaded before, and two for any other.
func (s *Store) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	const op = "load"
	if err := ledger.CheckWindow(at, w); err != nil {
		return nil, err
	}
	return call(ctx, s, op, string(at), func() (*segno.Line, error) {
		found, err := s.ancestors(ctx, at, w.Last)
		if err == nil && found == nil {
			err = segno.NewError(segno.KindNotFound, "", "", nil)
		}
		if err != nil {
			return nil, err
		}
		slices.Reverse(found)
		line := &segno.Line{Commits: make([]segno.Node, len(found))}
		for i, e := range found {
			n := &line.Commits[i]
			*n = segno.Node{ID: e.id, Thread: e.owner, Parent: e.parent, Seq: e.Seq}
			if n.Checkpoint, err = e.decodeCheckpoint(); err != nil {
				return nil, err
			}
		}
		if w.Entries {
			err = s.loadEntries(ctx, found, line)
		}
		return line, err
	})
}

// ancestors returns a node and its ancestors, newest first, and at most last of them if last is
// not 0. It returns nil if the node does not exist.
func (s *Store) ancestors(ctx context.Context, id segno.CommitID, last int) ([]*logRecord, error) {
	if id == "" {
		return nil, nil
	}
	if end, ok := s.positions.get(id); ok {
		found, err := s.walk(ctx, end, id, last)
		if err != nil || found != nil {
			return found, err
		}
		s.positions.remove(id)
	}
	all, err := s.listLookUps(ctx, commitGroup(id))
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if found, err := s.walk(ctx, lineEnd{position: l.position}, id, last); err != nil || found != nil {
			return found, err
		}
	}
	for _, l := range all {
		if _, err := s.checkLookUp(ctx, l); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// walk follows a line from its newest node. It returns nil if that node is not at end. If the
// line is unknown, walk assumes that it is the log before end, which saves a round trip if that
// is true.
func (s *Store) walk(ctx context.Context, end lineEnd, id segno.CommitID, last int) ([]*logRecord, error) {
	w := walker{Store: s, want: id, last: last, seen: map[position]*logRecord{}}
	isEnd := func() bool {
		e := w.seen[end.position]
		return e != nil && e.id == id && e.node
	}
	if end.line == nil {
		if _, _, err := w.readNext(ctx, []run{{end.thread, end.area, 1, end.pos}}); err != nil || !isEnd() {
			return nil, err
		}
		e := w.seen[end.position]
		if err := s.completeLine(ctx, e, w.seen); err != nil {
			return nil, err
		}
		end.line = e.line.runs
		s.positions.put(id, end)
	}
	for line := end.line; !w.done(); {
		positions, rest, err := w.readNext(ctx, line)
		switch {
		case err != nil:
			return nil, err
		case len(positions) == 0:
			return nil, damaged(end.key(), fmt.Errorf("its line has no record of commit %s", w.want))
		case len(w.got) == 0 && (positions[0] != end.position || !isEnd()):
			return nil, nil
		}
		if err := w.take(positions); err != nil {
			return nil, err
		}
		line = rest
	}
	return w.got, nil
}

// walker is a walk in progress.
type walker struct {
	*Store
	want segno.CommitID // the next node of the line
	last int            // the maximum number of nodes, or 0
	got  []*logRecord
	seen map[position]*logRecord // records that were read and that take has not processed yet
}

func (w *walker) done() bool { return w.want == "" || w.last > 0 && len(w.got) == w.last }

// readNext removes the next positions from a line and reads their records, unless they were read
// already.
func (w *walker) readNext(ctx context.Context, line []run) (positions []position, rest []run, err error) {
	n := maxKeys
	switch {
	case w.last == 1:
		n = 1
	case w.last > 0:
		n = w.last - len(w.got) + 8 // some records of the log may not be on the line
	}
	positions, rest = splitNewest(line, n)
	var unseen []position
	for _, p := range positions {
		if _, ok := w.seen[p]; !ok {
			unseen = append(unseen, p)
		}
	}
	found, err := w.read(ctx, unseen)
	for _, p := range unseen {
		w.seen[p] = found[p]
	}
	return positions, rest, err
}

// take adds those records that are nodes of the line to the result.
func (w *walker) take(positions []position) error {
	for _, p := range positions {
		e := w.seen[p]
		delete(w.seen, p)
		switch {
		case w.done():
		case e == nil:
			return missing(p.key())
		case e.node && e.id == w.want:
			w.got, w.want = append(w.got, e), e.parent
		}
	}
	return nil
}

// loadEntries decodes the entries of the records found into line.
func (s *Store) loadEntries(ctx context.Context, found []*logRecord, line *segno.Line) error {
	bodies, err := s.readBodies(ctx, found)
	if err != nil {
		return err
	}
	return inParallel(len(found), func(from, to int) error {
		for i := from; i < to; i++ {
			if bodies[i] == nil {
				continue
			}
			rec, err := s.code.Unpack(bodies[i])
			if err == nil {
				line.Commits[i].Entries, err = record.DecodeEntries(rec)
			}
			if err != nil {
				return damaged(found[i].at.key(), err)
			}
		}
		return nil
	})
}

// inParallel divides n units of work among the processors if n is large. Decoding is most of the
// cost of loading a long line.
func inParallel(n int, work func(from, to int) error) error {
	const share = 64
	if n <= share {
		return work(0, n)
	}
	var group sync.WaitGroup
	errs := make([]error, (n+share-1)/share)
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range errs {
		slots <- struct{}{}
		group.Go(func() {
			errs[i] = work(i*share, min(n, (i+1)*share))
			<-slots
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// readBodies returns the packed entries of records. It reads those in separate values together.
func (s *Store) readBodies(ctx context.Context, found []*logRecord) ([][]byte, error) {
	bodies := make([][]byte, len(found))
	var keys []string
	for i, e := range found {
		bodies[i] = e.body
		for part := range e.parts {
			keys = append(keys, bodyKey(e.at.thread, e.tag, part))
		}
	}
	vals, err := s.getAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i, e := range found {
		if e.parts == 0 {
			continue
		}
		if bodies[i], err = s.join(keys[:e.parts], vals[:e.parts]); err != nil {
			return nil, err
		}
		keys, vals = keys[e.parts:], vals[e.parts:]
	}
	return bodies, nil
}

// join concatenates the content of values.
func (s *Store) join(keys []string, vals [][]byte) ([]byte, error) {
	var joined bytes.Buffer
	for i, val := range vals {
		if val == nil {
			return nil, missing(keys[i])
		}
		content, err := s.code.unframe(keys[i], val)
		if err != nil {
			return nil, err
		}
		joined.Write(content)
	}
	return joined.Bytes(), nil
}
