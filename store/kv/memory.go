package kv

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/notify"
	"github.com/dalsegno/segno/internal/record"
)

// Memory is a [Store] over a [Map] that also has the abilities [segno.Workspaces] and
// [segno.Collector]: store/memory. It ends with the process. Workspaces and operations are kept beside
// the map, because a lock is enough to change them together with a commit; another KV would need
// look-ups and a way to detect interrupted writes.
type Memory struct {
	*Store
	values *Map

	mu         sync.Mutex // guards what follows; held during a commit and a removal
	workspaces map[segno.WorkspaceID]encodedWorkspace
	operations []encodedOperation // oldest first
	commits    int                // how many were made
}

// Encoded values share nothing with the values of the caller.

type encodedWorkspace struct{ record, state []byte } // a nil record is of a workspace that only commits know

type encodedOperation struct {
	id        segno.OperationID
	workspace segno.WorkspaceID
	thread    segno.ThreadID
	record    []byte
}

func (o encodedOperation) decode() (segno.Operation, error) {
	return record.DecodeOperation(o.id, o.workspace, o.record)
}

var (
	_ segno.Workspaces = (*Memory)(nil)
	_ segno.Collector  = (*Memory)(nil)
)

// NewMemory returns an empty store. clock tells the age of objects and leases; nil is time.Now.
func NewMemory(clock func() time.Time) *Memory {
	values := NewMap(clock)
	m := &Memory{values: values, workspaces: map[segno.WorkspaceID]encodedWorkspace{}}
	m.Store = &Store{kv: values, getter: values, batcher: values, options: Options{Clock: values.clock},
		code: &coder{Squeezer: record.NewSqueezer(), uncompressed: true}}
	m.hasOperation = func(id segno.OperationID) bool {
		return slices.ContainsFunc(m.operations, func(o encodedOperation) bool { return o.id == id })
	}
	return m
}

// lockedCall is call with m.mu held. Commit takes m.mu before the call begins, so all others must.
func lockedCall[T any](ctx context.Context, m *Memory, op, name string, do func() (T, error)) (T, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return call(ctx, m.Store, op, name, do)
}

// Commit implements [segno.Store].
func (m *Memory) Commit(ctx context.Context, c segno.Commit) (head segno.Head, err error) {
	if err := c.Check(); err != nil {
		return head, err
	}
	var state []byte
	var operation encodedOperation
	if c.Workspace != nil {
		state = record.EncodeState(c.Workspace)
	}
	if c.Operation != nil {
		operation = encodedOperation{id: c.Operation.ID, workspace: c.Operation.Workspace, thread: c.Operation.Thread,
			record: record.EncodeOperation(c.Operation)}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	head, repeated, err := m.commit(ctx, c)
	if err != nil || repeated {
		return head, err
	}
	m.commits++
	if c.Workspace != nil {
		m.workspaces[c.Workspace.Workspace] = encodedWorkspace{m.workspaces[c.Workspace.Workspace].record, state}
	}
	if c.Operation != nil {
		m.operations = append(m.operations, operation)
	}
	return head, nil
}

// Wait implements [segno.Watcher]. Only this process commits, so nothing is polled.
func (m *Memory) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	return m.notifier.Wait(ctx, thread, after, m.Head, notify.UntilNotified)
}

// Workspace implements [segno.Workspaces].
func (m *Memory) Workspace(ctx context.Context, id segno.WorkspaceID) (segno.WorkspaceRecord, error) {
	return lockedCall(ctx, m, "read workspace", string(id), func() (segno.WorkspaceRecord, error) {
		w := m.workspaces[id]
		if w.record == nil {
			return segno.WorkspaceRecord{}, segno.NewError(segno.KindNotFound, "", "", nil)
		}
		return record.JoinWorkspace(id, w.record, w.state)
	})
}

// FindWorkspaces implements [segno.Workspaces].
func (m *Memory) FindWorkspaces(ctx context.Context, paths []string, device, inode uint64) iter.Seq2[segno.WorkspaceRecord, error] {
	all := len(paths) == 0 && inode == 0
	return yieldAll(func() ([]segno.WorkspaceRecord, error) {
		return lockedCall(ctx, m, "find workspaces", "", func() ([]segno.WorkspaceRecord, error) {
			return m.findWorkspaces(func(w *segno.WorkspaceRecord) bool {
				return all || slices.Contains(paths, w.Path) || inode != 0 && w.Inode == inode && w.Device == device
			})
		})
	})
}

func (m *Memory) findWorkspaces(matches func(*segno.WorkspaceRecord) bool) (found []segno.WorkspaceRecord, err error) {
	for id, w := range m.workspaces {
		if w.record == nil {
			continue
		}
		r, err := record.JoinWorkspace(id, w.record, w.state)
		if err != nil {
			return nil, err
		}
		if matches(&r) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b segno.WorkspaceRecord) int {
		return cmp.Or(len(b.Path)-len(a.Path), cmp.Compare(a.ID, b.ID))
	})
	return found, nil
}

// PutWorkspace implements [segno.Workspaces].
func (m *Memory) PutWorkspace(ctx context.Context, w segno.WorkspaceRecord) error {
	const op = "write workspace"
	if err := segno.CheckID(op, string(w.ID)); err != nil {
		return err
	}
	rec := record.EncodeWorkspace(&w)
	_, err := lockedCall(ctx, m, op, string(w.ID), func() (struct{}, error) {
		m.workspaces[w.ID] = encodedWorkspace{rec, m.workspaces[w.ID].state}
		return struct{}{}, nil
	})
	return err
}

// Operations implements [segno.Workspaces].
func (m *Memory) Operations(ctx context.Context, id segno.WorkspaceID) iter.Seq2[segno.Operation, error] {
	return yieldAll(func() ([]segno.Operation, error) {
		return lockedCall(ctx, m, "read operations", string(id), func() (found []segno.Operation, err error) {
			for _, encoded := range slices.Backward(m.operations) {
				if encoded.workspace != id {
					continue
				}
				o, err := encoded.decode()
				if err != nil {
					return nil, err
				}
				found = append(found, o)
			}
			return found, nil
		})
	})
}

// Collect implements [segno.Collector].
func (m *Memory) Collect(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return m.collect(ctx, "collect", &p, m.planCollect)
}

// Erase implements [segno.Eraser].
func (m *Memory) Erase(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return m.collect(ctx, "erase", &p, func(ctx context.Context, c *contents) (*removal, error) {
		return m.planErase(ctx, &c.policy, c.threads, c.removed)
	})
}

// contents is what the store holds at one moment.
type contents struct {
	threads []*threadLog
	policy  segno.CollectPolicy // with what operations and workspaces keep
	removed []*segno.Checkpoint // what the workspaces of deleted threads hold
	deleted map[segno.ThreadID]bool
	commits int
}

// collect plans a removal without the lock, because the policy's Trace takes long and may use the
// store. After a commit it plans again.
func (m *Memory) collect(ctx context.Context, op string, p *segno.CollectPolicy, plan func(context.Context, *contents) (*removal, error)) (segno.Collection, error) {
	for {
		c, err := lockedCall(ctx, m, op, "", func() (*contents, error) { return m.contents(ctx, *p) })
		if err != nil {
			return segno.Collection{}, err
		}
		x, err := plan(ctx, c)
		if err != nil {
			return segno.Collection{}, fail(op, "", err)
		}
		if p.DryRun {
			return x.Collection, nil
		}
		removed, err := lockedCall(ctx, m, op, "", func() (bool, error) {
			if c.commits != m.commits {
				return false, nil
			}
			if x.erase {
				m.eraseOperations(c.deleted)
			}
			return true, m.remove(ctx, x, func() error { return nil })
		})
		if err != nil || removed {
			return x.Collection, err
		}
	}
}

func (m *Memory) contents(ctx context.Context, p segno.CollectPolicy) (c *contents, err error) {
	c = &contents{deleted: map[segno.ThreadID]bool{}, commits: m.commits}
	if c.threads, err = m.readLogs(ctx); err != nil {
		return nil, err
	}
	for _, t := range c.threads {
		c.deleted[t.state.Head.Thread] = t.state.Deleted
	}
	c.policy, c.removed, err = m.policy(p, c.deleted)
	return c, err
}

// eraseOperations removes the operations and workspace states of deleted threads.
func (m *Memory) eraseOperations(deleted map[segno.ThreadID]bool) {
	m.operations = slices.DeleteFunc(m.operations, func(o encodedOperation) bool { return deleted[o.thread] })
	for id, w := range m.workspaces {
		if state, err := record.DecodeState(id, w.state); err == nil && deleted[state.Thread] {
			m.workspaces[id] = encodedWorkspace{w.record, nil}
		}
	}
}

// policy adds to p what operations and workspaces keep, as checkpoints. The two ids of such a
// checkpoint are the nodes that it keeps. removed are what the workspaces of deleted threads hold.
func (m *Memory) policy(p segno.CollectPolicy, deleted map[segno.ThreadID]bool) (_ segno.CollectPolicy, removed []*segno.Checkpoint, err error) {
	p.Checkpoints = slices.Clone(p.Checkpoints)
	for _, encoded := range m.operations {
		o, err := encoded.decode()
		if err != nil {
			return p, nil, err
		}
		if !deleted[o.Thread] && p.Retain.KeepsOperation(&o) {
			p.Checkpoints = append(p.Checkpoints, segno.Checkpoint{ID: o.Before.Head, Parent: o.Before.Tip}, segno.Checkpoint{ID: o.After.Head, Parent: o.After.Tip})
		}
	}
	for id, w := range m.workspaces {
		if w.state == nil {
			continue
		}
		state, err := record.DecodeState(id, w.state)
		if err != nil {
			return p, nil, err
		}
		if c := (segno.Checkpoint{Workspace: state.Snapshot}); deleted[state.Thread] {
			removed = append(removed, &c)
		} else {
			p.Checkpoints = append(p.Checkpoints, c)
		}
	}
	return p, removed, nil
}

// planCollect plans the removal of what heads, tips, retained lines, pins, operations and the policy
// do not reach.
func (m *Memory) planCollect(ctx context.Context, c *contents) (*removal, error) {
	nodes, err := readNodes(c.threads)
	if err != nil {
		return nil, err
	}
	amended := map[segno.CommitID]bool{}
	for _, n := range nodes {
		if n.Checkpoint != nil && !n.Deleted {
			amended[n.Checkpoint.Amends] = true
		}
	}
	p := c.policy
	for _, t := range c.threads {
		if !t.state.Deleted {
			p.Checkpoints = append(p.Checkpoints, segno.Checkpoint{ID: t.state.Head.Head, Parent: t.state.Tip})
		}
	}
	for _, removed := range c.removed {
		p.Checkpoints = append(p.Checkpoints, *removed) // only an erasure removes these
	}
	for id, n := range nodes {
		at := n
		for at.Checkpoint == nil && at.Parent != "" {
			at = nodes[at.Parent]
		}
		n.Deleted = n.Deleted || amended[id] || !p.Retain.Keeps(at.Checkpoint)
		nodes[id] = n
	}
	x := &removal{threads: c.threads, names: currentPins(c.threads)}
	return x, m.addUnreached(ctx, x, &p, x.split(&p, nodes))
}

// addUnreached adds the objects to x that no checkpoint in kept reaches. Objects that were written or
// used within an hour stay.
func (m *Memory) addUnreached(ctx context.Context, x *removal, p *segno.CollectPolicy, kept []*segno.Checkpoint) error {
	reached := map[segno.Hash]bool{}
	visit := func(h segno.Hash) bool {
		first := !reached[h]
		reached[h] = true
		return first
	}
	for _, c := range kept {
		if p.Trace != nil {
			if err := p.Trace(ctx, m.Objects(), *c, visit); err != nil {
				return err
			}
		}
		for _, h := range c.Refs() {
			visit(h)
		}
	}
	old := m.options.Clock().Add(-time.Hour)
	for name, written := range m.values.written("o{", "}kept") {
		h, err := segno.ParseHash(strings.TrimSuffix(strings.TrimPrefix(name, "o{"), "}kept"))
		if err == nil && (p.Trace == nil || reached[h] || written.After(old)) {
			x.Kept++
			continue
		}
		if err := errors.Join(err, m.addObject(ctx, x, h)); err != nil {
			return err
		}
	}
	return nil
}
