package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/reach"
	"github.com/dalsegno/segno/internal/vfs"
)

// erasure is what an Erase drops: the content of deleted threads that no other thread, pin or operation
// reaches. Commits that a fork of a deleted thread reaches stay in the deleted thread's log.
type erasure struct {
	s       *Store
	deleted map[segno.ThreadID]*thread
	gone    map[segno.CommitID]reach.Node
	pins    map[segno.CommitID]string // that stay
}

// Erase implements [segno.Eraser]. It refuses to work while a log is damaged, because what that
// thread reaches is not known. All writers wait for it.
func (s *Store) Erase(ctx context.Context, p segno.CollectPolicy) (done segno.Collection, err error) {
	const op = "erase"
	if !s.exists() {
		return done, s.begin(ctx, op)
	}
	leave, err := s.enter(ctx, op, true)
	if err != nil {
		return done, err
	}
	defer leave()
	if damage := s.index.damage(); len(damage) > 0 {
		return done, errors.Join(damage...)
	}
	e := &erasure{s: s, deleted: map[segno.ThreadID]*thread{}, pins: map[segno.CommitID]string{}}
	kept, lost := e.plan(&p)
	s.mu.Unlock() // Trace may take long, and the store's lock excludes writers
	objects, err := reach.Objects(ctx, s.Objects(), &p, kept, lost)
	s.mu.Lock()
	for name := range objects {
		info, statErr := os.Stat(s.objectFile(name))
		switch {
		case errors.Is(statErr, fs.ErrNotExist):
			delete(objects, name)
		case statErr != nil:
			err = errors.Join(err, statErr)
		default:
			done.Objects, done.Bytes = done.Objects+1, done.Bytes+info.Size()
		}
	}
	done.Checkpoints = len(reach.Checkpoints(e.gone))
	if err != nil || p.DryRun {
		return done, fail(op, s.dir, err)
	}
	if err = e.rewriteLogs(); err == nil {
		err = s.removeObjects(objects)
	}
	return done, fail(op, s.dir, err)
}

// plan divides the commits into those that stay and those that e drops. It returns the checkpoints
// whose objects stay, and those whose objects go unless one of the former reaches them, too.
func (e *erasure) plan(p *segno.CollectPolicy) (kept, lost []*segno.Checkpoint) {
	x, nodes := e.s.index, map[segno.CommitID]reach.Node{}
	for _, t := range x.threads {
		if t.Deleted {
			e.deleted[t.created.ID] = t
		}
		for _, c := range t.commits {
			if c.isNode {
				nodes[c.ID] = reach.Node{Parent: c.Parent, Deleted: t.Deleted, Checkpoint: c.Checkpoint}
			}
		}
	}
	var roots []segno.CommitID
	for id, pin := range x.pins {
		if pin.value != "" {
			roots, e.pins[id] = append(roots, id), pin.value
		}
	}
	for _, o := range x.operations {
		if e.deleted[o.value.Thread] == nil {
			roots = append(roots, o.value.Before.Head, o.value.Before.Tip, o.value.After.Head, o.value.After.Tip)
		}
	}
	for i := range p.Checkpoints {
		roots = append(roots, p.Checkpoints[i].ID, p.Checkpoints[i].Parent)
		kept = append(kept, &p.Checkpoints[i])
	}
	keptNodes, gone := reach.Split(nodes, roots)
	e.gone = gone
	kept, lost = append(kept, reach.Checkpoints(keptNodes)...), reach.Checkpoints(gone)
	for _, w := range x.states {
		c := &segno.Checkpoint{Workspace: w.value.Snapshot}
		if e.deleted[w.value.Thread] != nil {
			lost = append(lost, c)
		} else {
			kept = append(kept, c)
		}
	}
	return kept, lost
}

// rewriteLogs writes the logs of deleted threads without what e drops. Every process reads all logs
// again afterwards.
func (e *erasure) rewriteLogs() error {
	s, logs := e.s, map[*thread][]byte{}
	for _, t := range e.deleted {
		torn, err := filepath.Glob(filepath.Join(t.dir, "torn-*"))
		if err != nil {
			return err
		}
		for _, name := range torn {
			if err := s.fs.Remove(name); err != nil {
				return err
			}
		}
		before, err := os.ReadFile(t.log())
		if err != nil {
			return err
		}
		var after []byte
		for line := range strings.Lines(string(before)) {
			if after, err = e.appendErased(after, []byte(line)); err != nil {
				return t.damaged(err)
			}
		}
		if len(torn) > 0 || string(after) != string(before) {
			logs[t] = after
		}
	}
	if len(logs) == 0 {
		return nil
	}
	if err := s.announce(change{Erased: true}); err != nil {
		return err
	}
	s.index = newIndex(s.threadsDir())
	for t, log := range logs {
		if err := vfs.Replace(s.fs, t.log(), log, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// appendErased appends a record to a log without what e drops. Its id and digest stay, so that the
// commit is not made again.
func (e *erasure) appendErased(log, line []byte) ([]byte, error) {
	r, err := decode(line)
	if err != nil || r.Commit == nil {
		return append(log, line...), err
	}
	entries, err := decodeEntries(line)
	if err == nil {
		e.strip(r.Commit)
		line, err = encode(r, entries[:r.Commit.Entries])
	}
	return append(log, line...), err
}

// strip takes out of a commit of a deleted thread what goes. A workspace's state stays as a record
// without content, because it replaces older states.
func (e *erasure) strip(c *commitRecord) {
	if t := c.Create; t != nil {
		c.Create = &segno.Thread{ID: t.ID, Created: t.Created, Parent: t.Parent}
	}
	c.Link = nil
	if c.Operation != nil && e.deleted[c.Operation.Thread] != nil {
		c.Operation = nil
	}
	if w := c.Workspace; w != nil && e.deleted[w.Thread] != nil {
		c.Workspace = &segno.WorkspaceState{Workspace: w.Workspace}
	}
	if c.Pin != nil && e.pins[c.Pin.Checkpoint] != c.Pin.Name {
		c.Pin.Name = ""
	}
	if _, gone := e.gone[c.ID]; gone {
		c.Checkpoint, c.Entries, c.Needs = nil, 0, nil
	}
}

func (s *Store) removeObjects(names map[segno.Hash]bool) error {
	dirs := map[string]bool{}
	for name := range names {
		if err := s.fs.Remove(s.objectFile(name)); err != nil {
			return err
		}
		dirs[filepath.Dir(s.objectFile(name))] = true
	}
	for dir := range dirs {
		if err := s.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
