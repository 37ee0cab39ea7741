package file

import (
	"context"
	"io"
	"os"
	"slices"

	"github.com/dalsegno/segno"
)

// known returns a commit that was read, or nil.
func (s *Store) known(id segno.CommitID) *commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commits[id]
}

// find returns a commit, or nil if changes does not know it.
func (s *Store) find(ctx context.Context, op string, id segno.CommitID) (*commit, error) {
	if x := s.known(id); x != nil {
		return x, nil
	}
	if err := s.catchUp(ctx, op); err != nil {
		return nil, err
	}
	s.mu.Lock()
	thread, placed := s.places[id]
	s.mu.Unlock()
	if !placed {
		return s.known(id), nil
	}
	err := s.look(ctx, op, s.thread(thread))
	if x := s.known(id); x != nil {
		return x, nil // it is before the damage, if there is any
	}
	return nil, err
}

// search returns a commit, if need be by reading all logs. That it is not there
// is only said if all could be read.
func (s *Store) search(ctx context.Context, op string, id segno.CommitID) (*commit, error) {
	if id == "" || id == segno.Self {
		return nil, notFound(op, string(id))
	}
	x, err := s.find(ctx, op, id)
	if x != nil || err != nil {
		return x, err
	}
	damage, err := s.readAll(ctx, op)
	if x := s.known(id); x != nil {
		return x, nil
	}
	if err != nil {
		return nil, err
	}
	if len(damage) > 0 {
		return nil, damage[0]
	}
	return nil, notFound(op, string(id))
}

// Load implements [segno.Store].
func (s *Store) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	const op = "load"
	if w.Last < 0 {
		return nil, invalid(op, string(at), "the window is negative")
	}
	end, err := s.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer end()
	var path []*commit
	for id := at; len(path) == 0 || id != "" && (w.Last == 0 || len(path) < w.Last); {
		x, err := s.search(ctx, op, id)
		if err != nil {
			return nil, err
		}
		if !x.node {
			return nil, notFound(op, string(id))
		}
		path = append(path, x)
		id = x.Parent
	}
	slices.Reverse(path)
	line := &segno.Line{Commits: make([]segno.Node, len(path))}
	for i, x := range path {
		line.Commits[i] = x.Node
		line.Commits[i].Checkpoint = clone(x.Checkpoint, same)
	}
	if w.Entries {
		err = s.loadEntries(ctx, op, path, line.Commits)
	}
	return line, err
}

// Lines that lie close together in a log are read together.
const (
	closeBy     = 16 << 10
	mostAtATime = 4 << 20
)

// loadEntries fills in the nodes' entries.
func (s *Store) loadEntries(ctx context.Context, op string, path []*commit, nodes []segno.Node) error {
	var f *os.File
	var of *thread
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	for i := 0; i < len(path); {
		if path[i].entries == 0 {
			i++
			continue
		}
		if err := ctx.Err(); err != nil {
			return fail(op, "", err)
		}
		if of != path[i].log {
			if f != nil {
				f.Close()
			}
			var err error
			of = path[i].log
			if f, err = os.Open(of.path()); err != nil {
				return fail(op, of.path(), err)
			}
		}
		n := together(path[i:])
		if err := readEntries(op, f, path[i:i+n], nodes[i:i+n]); err != nil {
			return err
		}
		i += n
	}
	return nil
}

// together is how many of the first commits are read at a time.
func together(path []*commit) int {
	n := 1
	for n < len(path) && path[n].log == path[0].log && path[n].at >= path[n-1].end && path[n].at-path[n-1].end <= closeBy && path[n].end-path[0].at <= mostAtATime {
		n++
	}
	return n
}

func readEntries(op string, f *os.File, path []*commit, nodes []segno.Node) error {
	from := path[0].at
	data := make([]byte, path[len(path)-1].end-from)
	if _, err := f.ReadAt(data, from); err == io.EOF {
		return corrupt(op, f.Name(), io.ErrUnexpectedEOF)
	} else if err != nil {
		return fail(op, f.Name(), err)
	}
	for i, x := range path {
		if x.entries == 0 {
			continue
		}
		entries, err := decodeEntries(data[x.at-from : x.end-from-1])
		if err != nil {
			return corrupt(op, string(x.ID), err)
		}
		nodes[i].Entries = entries
	}
	return nil
}
