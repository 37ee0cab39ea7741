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
	"github.com/dalsegno/segno/internal/record"
)

// Load implements [segno.Store]. A commit that this store saw as a head, or was
// asked for before, costs one round trip; another one two.
func (s *Store) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	const op = "load"
	if w.Last < 0 {
		return nil, segno.Errorf(segno.KindInvalid, op, string(at), "the window is negative")
	}
	end, err := s.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer end()
	found, err := s.ancestors(ctx, at, w.Last)
	if err == nil && found == nil {
		err = segno.NewError(segno.KindNotFound, "", "", nil)
	}
	if err != nil {
		return nil, fail(op, string(at), err)
	}
	slices.Reverse(found)
	line := &segno.Line{Commits: make([]segno.Node, len(found))}
	for i, e := range found {
		n := &line.Commits[i]
		*n = segno.Node{ID: e.id, Thread: e.thread, Parent: e.parent, Seq: e.seq}
		if n.Checkpoint, err = e.info(); err != nil {
			return nil, fail(op, string(at), err)
		}
	}
	if w.Entries {
		err = s.fill(ctx, found, line)
	}
	return line, fail(op, string(at), err)
}

// ancestors returns a commit and what comes before it on its line, newest first,
// at most last if that is not 0; nil if there is no such node.
func (s *Store) ancestors(ctx context.Context, id segno.CommitID, last int) ([]*entry, error) {
	if id == "" {
		return nil, nil
	}
	if at, ok := s.places.get(id); ok {
		found, err := s.walk(ctx, at, id, last)
		if err != nil || found != nil {
			return found, err
		}
		s.places.drop(id)
	}
	_, at, err := s.lookUps(ctx, commitGroup(id))
	if err != nil {
		return nil, err
	}
	for _, p := range at {
		if found, err := s.walk(ctx, located{place: p}, id, last); err != nil || found != nil {
			return found, err
		}
	}
	return nil, s.lost(ctx, at)
}

// lost returns an error if a look-up leads to a position that the thread has passed and
// that has no record: the store has lost the record. A look-up beyond the thread's end is
// of a commit that was never made.
func (s *Store) lost(ctx context.Context, at []place) error {
	for _, p := range at {
		if p.area != areaLog {
			continue
		}
		st, err := s.fresh(ctx, p.thread, false)
		if err != nil {
			return err
		}
		if st == nil || p.pos > st.pos {
			continue
		}
		if found, err := s.read(ctx, []place{p}); err != nil {
			return err
		} else if found[p] == nil {
			return missing(p.key())
		}
	}
	return nil
}

// walk follows a line down from its newest node; nil if the node is not there. A
// line that is not known is taken to be all that came before in the log, which
// costs no second round trip where it is true.
func (s *Store) walk(ctx context.Context, at located, want segno.CommitID, last int) (got []*entry, err error) {
	line, known := at.line, at.line != nil
	if !known {
		line = []run{{at.thread, at.area, 1, at.pos}}
	}
	seen := map[place]*entry{}
	for want != "" && (last == 0 || len(got) < last) {
		n := mostKeys
		if last > 0 {
			n = last - len(got) + 8
		}
		places, rest := newest(line, n)
		if len(places) == 0 {
			return nil, damaged(at.key(), fmt.Errorf("its line has no record of commit %s", want))
		}
		if err := s.readUnseen(ctx, places, seen); err != nil {
			return nil, err
		}
		if first := seen[places[0]]; len(got) == 0 {
			if first == nil || first.id != want || !first.node {
				return nil, nil
			}
			if !known {
				if err := s.complete(ctx, first, seen); err != nil {
					return nil, err
				}
				line, known = first.line.runs, true
				s.places.put(want, located{at.place, line})
				continue
			}
		}
		for _, p := range places {
			e := seen[p]
			switch {
			case want == "" || last > 0 && len(got) == last:
			case e == nil:
				return nil, missing(p.key())
			case e.node && e.id == want:
				got, want = append(got, e), e.parent
			}
			delete(seen, p)
		}
		line = rest
	}
	return got, nil
}

// readUnseen reads those of places that are not in seen yet.
func (s *Store) readUnseen(ctx context.Context, places []place, seen map[place]*entry) error {
	var unseen []place
	for _, p := range places {
		if _, ok := seen[p]; !ok {
			unseen = append(unseen, p)
		}
	}
	if len(unseen) == 0 {
		return nil
	}
	found, err := s.read(ctx, unseen)
	for _, p := range unseen {
		seen[p] = found[p]
	}
	return err
}

// newest splits the newest n places off a line.
func newest(line []run, n int) (places []place, rest []run) {
	rest = slices.Clone(line)
	for len(rest) > 0 && len(places) < n {
		r := &rest[len(rest)-1]
		for len(places) < n && r.to >= r.from && r.to > 0 {
			places = append(places, place{r.thread, r.area, r.to})
			r.to--
		}
		if r.to < r.from || r.to == 0 {
			rest = rest[:len(rest)-1]
		}
	}
	return places, rest
}

// fill decodes the entries of found into line.
func (s *Store) fill(ctx context.Context, found []*entry, line *segno.Line) error {
	bodies, err := s.bodies(ctx, found)
	if err != nil {
		return err
	}
	return shared(len(found), func(from, to int) error {
		return s.decode(found[from:to], bodies[from:to], line.Commits[from:to])
	})
}

// shared does n pieces of work in parts, at once if they are many: decoding is most
// of what loading a long line costs.
func shared(n int, part func(from, to int) error) error {
	const share = 64
	if n <= share {
		return part(0, n)
	}
	var group sync.WaitGroup
	errs := make([]error, (n+share-1)/share)
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range errs {
		room <- struct{}{}
		group.Go(func() {
			errs[i] = part(i*share, min(n, (i+1)*share))
			<-room
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (s *Store) decode(found []*entry, bodies [][]byte, into []segno.Node) error {
	for i, e := range found {
		if bodies[i] == nil {
			continue
		}
		rec, err := s.code.Unpack(bodies[i])
		if err == nil {
			into[i].Entries, err = record.DecodeEntries(rec)
		}
		if err != nil {
			return damaged(e.at.key(), err)
		}
	}
	return nil
}

// bodies returns the packed entries of records; those outside are read together.
func (s *Store) bodies(ctx context.Context, found []*entry) ([][]byte, error) {
	bodies := make([][]byte, len(found))
	var keys []string
	for i, e := range found {
		bodies[i] = e.body
		for part := range e.parts {
			keys = append(keys, bodyKey(e.at.thread, e.tag, part))
		}
	}
	if len(keys) == 0 {
		return bodies, nil
	}
	vals, err := s.getAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i, e := range found {
		if e.parts == 0 {
			continue
		}
		bodies[i], err = s.join(keys[:e.parts], vals[:e.parts])
		if err != nil {
			return nil, err
		}
		keys, vals = keys[e.parts:], vals[e.parts:]
	}
	return bodies, nil
}

// join puts a body together that was cut into values.
func (s *Store) join(keys []string, vals [][]byte) ([]byte, error) {
	var whole bytes.Buffer
	for i, val := range vals {
		if val == nil {
			return nil, missing(keys[i])
		}
		content, err := s.code.unframe(keys[i], val)
		if err != nil {
			return nil, err
		}
		whole.Write(content)
	}
	return whole.Bytes(), nil
}
