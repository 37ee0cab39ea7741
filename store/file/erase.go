package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/reach"
	"github.com/dalsegno/segno/internal/vfs"
)

// Erase implements [segno.Eraser]. It refuses to work while a log is damaged, because what
// that thread reaches is not known. Commits that bring objects wait for it. Another process
// that has the store open keeps what it has read of an erased thread until it closes.
func (s *Store) Erase(ctx context.Context, p segno.CollectPolicy) (done segno.Collection, err error) {
	const op = "erase"
	end, err := s.begin(ctx, op)
	if err != nil {
		return done, err
	}
	there, err := s.checkFormat(op)
	end()
	if err != nil || !there {
		return done, err
	}
	release, err := s.lockObjects(ctx, op, true)
	if err != nil {
		return done, err
	}
	defer release()
	e, err := s.planErase(ctx, op, &p)
	if err != nil || p.DryRun {
		return e.Collection, fail(op, s.dir, err)
	}
	end, err = s.begin(ctx, op)
	if err != nil {
		return done, err
	}
	defer end()
	for _, t := range e.threads {
		if err := s.eraseThread(ctx, op, t, e); err != nil {
			return done, fail(op, string(t.id), err)
		}
	}
	return e.Collection, fail(op, s.dir, s.removeObjects(e.objects))
}

// lockObjects keeps an erasure and commits that name objects apart. Its callers take the
// lock before that of any log.
func (s *Store) lockObjects(ctx context.Context, op string, exclusive bool) (release func(), err error) {
	f, err := s.fs.OpenFile(filepath.Join(s.dir, formatName), os.O_RDONLY, 0)
	if err != nil {
		return nil, fail(op, s.dir, err)
	}
	if err := s.lock(ctx, op, f, exclusive); err != nil {
		f.Close() // nothing was written
		return nil, err
	}
	return func() { f.Close() }, nil // nothing was written; this only releases the lock
}

// erasure is what Erase drops.
type erasure struct {
	segno.Collection
	threads []*thread // that are deleted
	deleted map[segno.ThreadID]bool
	gone    map[segno.CommitID]reach.Node
	pins    map[segno.CommitID]string // the pins that count
	objects map[segno.Hash]bool
}

func (s *Store) planErase(ctx context.Context, op string, p *segno.CollectPolicy) (*erasure, error) {
	e := &erasure{deleted: map[segno.ThreadID]bool{}, pins: map[segno.CommitID]string{}}
	end, err := s.begin(ctx, op)
	if err != nil {
		return e, err
	}
	damage, err := s.readAll(ctx, op)
	end()
	if err != nil || len(damage) > 0 {
		return e, errors.Join(err, errors.Join(damage...))
	}
	kept, lost := s.traceable(e, p)
	if e.objects, err = reach.Objects(ctx, s.Objects(), p, kept, lost); err != nil {
		return e, err
	}
	for h := range e.objects {
		fi, err := os.Stat(s.objectPath(h))
		if errors.Is(err, fs.ErrNotExist) {
			delete(e.objects, h)
			continue
		}
		if err != nil {
			return e, err
		}
		e.Objects, e.Bytes = e.Objects+1, e.Bytes+fi.Size()
	}
	return e, nil
}

// traceable fills in what e drops of the logs, and returns the checkpoints that keep objects
// and those whose objects go.
func (s *Store) traceable(e *erasure, p *segno.CollectPolicy) (kept, lost []*segno.Checkpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	nodes := map[segno.CommitID]reach.Node{}
	for _, t := range s.threads {
		if t.hidden {
			e.threads, e.deleted[t.id] = append(e.threads, t), true
		}
		for _, x := range t.commits {
			if x.node {
				nodes[x.ID] = reach.Node{Parent: x.Parent, Deleted: t.hidden, Checkpoint: x.Checkpoint}
			}
		}
	}
	var roots []segno.CommitID
	for id, pin := range s.pins {
		if pin.name != "" {
			roots, e.pins[id] = append(roots, id), pin.name
		}
	}
	for _, o := range s.operations {
		if !e.deleted[o.Thread] {
			roots = append(roots, o.Before.Head, o.Before.Tip, o.After.Head, o.After.Tip)
		}
	}
	for i := range p.Checkpoints {
		roots = append(roots, p.Checkpoints[i].ID, p.Checkpoints[i].Parent)
		kept = append(kept, &p.Checkpoints[i])
	}
	keptNodes, gone := reach.Split(nodes, roots)
	e.gone, e.Checkpoints = gone, len(reach.Checkpoints(gone))
	kept, lost = append(kept, reach.Checkpoints(keptNodes)...), reach.Checkpoints(gone)
	for _, w := range s.states {
		c := &segno.Checkpoint{Workspace: w.Snapshot}
		if e.deleted[w.Thread] {
			lost = append(lost, c)
		} else {
			kept = append(kept, c)
		}
	}
	return kept, lost
}

// eraseThread writes a deleted thread's log again without what goes. Each record keeps its
// place and its length, so that what other processes know of the log still holds; a deleted
// thread gets no records any more, so that none is written to the old file.
func (s *Store) eraseThread(ctx context.Context, op string, t *thread, e *erasure) error {
	f, release, err := s.hold(ctx, op, t)
	if err != nil {
		return err
	}
	defer release()
	if f == nil {
		return corrupt(op, t.path(), errors.New("the thread's log is gone"))
	}
	log, err := io.ReadAll(io.NewSectionReader(f, 0, t.size))
	if err != nil {
		return err
	}
	erased := make([]byte, 0, len(log))
	changed := false
	for line := range strings.Lines(string(log)) {
		next, err := e.line([]byte(line))
		if err != nil {
			return fmt.Errorf("erase record: %w", err)
		}
		changed = changed || string(next) != line
		erased = append(erased, next...)
	}
	if changed {
		if err := vfs.Replace(s.fs, t.path(), erased, 0o600); err != nil {
			return err
		}
	}
	if err := s.removeTorn(t); err != nil {
		return err
	}
	s.forget(t, e)
	return nil
}

// line returns a record without what goes, in as many bytes.
func (e *erasure) line(line []byte) ([]byte, error) {
	line = line[:len(line)-1]
	r, err := decode(line)
	if err != nil {
		return nil, err
	}
	_, entries, err := split(line)
	if err != nil {
		return nil, err
	}
	c := r.Commit
	if c == nil || !e.strip(c) {
		return append(line, '\n'), nil
	}
	if c.Entries == 0 {
		entries = nil
	}
	brief, err := marshal(r)
	if err != nil {
		return nil, err
	}
	return padded(brief[1:len(brief)-1], entries, len(line)+1)
}

// strip takes out of a commit what goes, and reports whether that is anything.
func (e *erasure) strip(c *commitRecord) (changed bool) {
	if t := c.Create; t != nil && *t != (segno.Thread{ID: t.ID, Created: t.Created, Parent: t.Parent}) {
		c.Create, changed = &segno.Thread{ID: t.ID, Created: t.Created, Parent: t.Parent}, true
	}
	if c.Link != nil {
		c.Link, changed = nil, true
	}
	if c.Operation != nil && e.deleted[c.Operation.Thread] {
		c.Operation, changed = nil, true
	}
	if w := c.Workspace; w != nil && e.deleted[w.Thread] {
		c.Workspace, changed = &segno.WorkspaceState{Workspace: w.Workspace}, true // it still replaces what an older record has
	}
	if c.Pin != nil && c.Pin.Name != "" && e.pins[c.Pin.Checkpoint] != c.Pin.Name {
		c.Pin, changed = &segno.Pin{Checkpoint: c.Pin.Checkpoint}, true
	}
	if _, gone := e.gone[c.ID]; gone {
		c.Checkpoint, c.Entries, c.Needs, changed = nil, 0, nil, true
	}
	return changed
}

// padded returns the line of a record, line break included, in exactly size bytes. Spaces
// after the record's fields fill it up.
func padded(brief, entries []byte, size int) ([]byte, error) {
	if len(entries) > 0 {
		entries = append([]byte(entriesKey), entries...)
	}
	digits := len(fmt.Sprint(size))
	n := size - bodyAt - len(briefBegin) - digits - len(",") - len(entries) - len("}\n")
	if n < len(brief) {
		return nil, fmt.Errorf("it takes %d bytes more than before", len(brief)-n)
	}
	body := fmt.Sprintf("%s%0*d,%s%s%s}", briefBegin, digits, n, brief, strings.Repeat(" ", n-len(brief)), entries)
	return []byte(crcBegin + checksum([]byte(body)) + crcEnd + body + "\n"), nil
}

// removeTorn removes an incomplete record at a log's end.
func (s *Store) removeTorn(t *thread) error {
	files, err := os.ReadDir(t.dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		if !strings.HasPrefix(file.Name(), "torn-") {
			continue
		}
		if err := s.fs.Remove(filepath.Join(t.dir, file.Name())); err != nil {
			return err
		}
	}
	return s.fs.SyncDir(t.dir)
}

// forget drops the erased records of a thread from the index.
func (s *Store) forget(t *thread, e *erasure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Thread, t.links, t.link, t.head.Link = segno.Thread{ID: t.id}, nil, 0, segno.Link{}
	for _, x := range t.commits {
		x.result.Link = segno.Link{}
		if _, gone := e.gone[x.ID]; gone {
			x.node, x.Checkpoint, x.entries = false, nil, 0
		}
	}
	maps.DeleteFunc(s.operations, func(_ segno.OperationID, o operation) bool { return o.Thread == t.id })
	for id, w := range s.states {
		if w.Thread == t.id {
			w.WorkspaceState = segno.WorkspaceState{Workspace: id}
			s.states[id] = w
		}
	}
}

func (s *Store) removeObjects(names map[segno.Hash]bool) error {
	var dirs []string
	for h := range names {
		path := s.objectPath(h)
		if err := s.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		if err := s.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
