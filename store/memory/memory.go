// Package memory is a [segno.Store] that ends with the process. Use it in tests, and for agents whose
// threads need not survive. It shares all code with store/file except for the logs themselves.
//
//	store := memory.New(nil)
//	defer store.Close()
package memory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/notify"
	"github.com/dalsegno/segno/store/internal/threadlog"
)

// Store is a [segno.Store]. It also implements [segno.Chains], [segno.Workspaces], [segno.Leaser],
// [segno.Collector], [segno.Eraser] and [segno.Watcher].
type Store struct {
	*threadlog.Store
	memory *memory
}

// New returns an empty store. clock determines the age of objects and leases; nil means time.Now.
func New(clock func() time.Time) *Store {
	if clock == nil {
		clock = time.Now
	}
	m := &memory{clock: clock, index: threadlog.NewIndex(nameOf), logs: map[string][]logged{},
		workspaces: map[segno.WorkspaceID]segno.WorkspaceRecord{}, objects: map[segno.Hash]*object{}}
	return &Store{threadlog.New(m, clock, func() notify.Pause { return notify.UntilNotified }), m}
}

// Collect implements [segno.Collector]. Objects that were written or used within an hour stay.
func (s *Store) Collect(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	done, err := threadlog.Collect(ctx, s.Store, p, s.memory.unreached)
	s.memory.objectsMu.Lock()
	defer s.memory.objectsMu.Unlock()
	if done.Kept = len(s.memory.objects); p.DryRun {
		done.Kept -= done.Objects
	}
	return done, err
}

// memory keeps logs in maps: [threadlog.Logs]. It shares no value with a caller.
type memory struct {
	clock func() time.Time

	mu         sync.Mutex // guards the next three fields; Enter locks it
	index      *threadlog.Index
	logs       map[string][]logged // by the names of the threads
	workspaces map[segno.WorkspaceID]segno.WorkspaceRecord

	objectsMu sync.Mutex // guards objects
	objects   map[segno.Hash]*object
}

// logged is a record of a log with its entries. A commit's At is the number of its record.
type logged struct {
	record  threadlog.Record
	entries []segno.Entry
}

func nameOf(id segno.ThreadID) string { return string(id) }

// Enter implements [threadlog.Logs].
func (m *memory) Enter(context.Context, bool) (x *threadlog.Index, leave func(), err error) {
	m.mu.Lock()
	return m.index, m.mu.Unlock, nil
}

// Check implements [threadlog.Logs].
func (m *memory) Check(*threadlog.Thread) error { return nil }

// Open implements [threadlog.Logs].
func (m *memory) Open(*threadlog.Thread) error { return nil }

// Append implements [threadlog.Logs].
func (m *memory) Append(t *threadlog.Thread, r *threadlog.Record, entries []segno.Entry) error {
	x := logged{threadlog.Clone(*r), threadlog.Clone(entries)}
	if err := m.index.Apply(t, &x.record, t.Size+1); err != nil {
		return err
	}
	m.logs[t.Name] = append(m.logs[t.Name], x)
	return nil
}

// ReadEntries implements [threadlog.Logs].
func (m *memory) ReadEntries(ctx context.Context, path []*threadlog.Commit, nodes []segno.Node) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, c := range path {
		entries := m.logs[c.Log.Name][c.At].entries
		if len(entries) != c.Count {
			return errors.New("the entries were removed")
		}
		nodes[i].Entries = threadlog.Clone(entries)
	}
	return nil
}

// Rewrite implements [threadlog.Logs]. It replaces records instead of changing them, so that calls with
// the old index may continue.
func (m *memory) Rewrite(threads []*threadlog.Thread, strip func(*threadlog.CommitRecord)) error {
	for _, t := range threads {
		log := slices.Clone(m.logs[t.Name])
		for i := range log {
			if c := log[i].record.Commit; c != nil {
				stripped := *c
				strip(&stripped)
				log[i].record.Commit, log[i].entries = &stripped, log[i].entries[:stripped.Entries:stripped.Entries]
				if stripped.Entries == 0 {
					log[i].entries = nil
				}
			}
		}
		m.logs[t.Name] = log
	}
	m.index = threadlog.NewIndex(nameOf)
	for name, log := range m.logs {
		for i := range log {
			if err := m.index.Apply(m.index.Thread(name), &log[i].record, int64(i+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Workspaces implements [threadlog.Logs].
func (m *memory) Workspaces(id segno.WorkspaceID) ([]segno.WorkspaceRecord, error) {
	all := slices.Collect(maps.Values(m.workspaces))
	return threadlog.Clone(slices.DeleteFunc(all, func(w segno.WorkspaceRecord) bool { return id != "" && w.ID != id })), nil
}

// PutWorkspace implements [threadlog.Logs].
func (m *memory) PutWorkspace(w segno.WorkspaceRecord) error {
	m.workspaces[w.ID] = threadlog.Clone(w)
	return nil
}

// Close implements [threadlog.Logs].
func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return nil
}
