package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// DamageTrial holds the content of a store for a test that damages the stored data and then reads it: each
// read must return the data that was written, or an error.
type DamageTrial struct {
	inventory
	want []string
}

// NewDamageTrial fills a store with three threads with saved states, a deleted thread, and in the first
// thread objects, a pin, and a link, an operation and a lease if the store supports them.
func NewDamageTrial(t testing.TB, s segno.Store) *DamageTrial {
	t.Helper()
	f := &fixture{tester: t, store: s, saver: saver.New(s)}
	tr := &DamageTrial{inventory: inventory{workspace: "workspace", path: "/work", sessions: []segno.SessionID{"session"},
		queries: []segno.CheckpointQuery{{Key: "turn key"}}}}
	random := rand.New(rand.NewPCG(7, 7))
	for n := range 3 {
		saved := saver.Snapshot{ThreadKey: saver.ThreadKey{Thread: fmt.Sprint("thread ", n)}}
		for step := range 12 {
			from := random.IntN(100)
			text := noise(3300)[from : from+200+random.IntN(3000)]
			saved.Messages = append(saved.Messages, json.RawMessage(fmt.Sprintf("%q", text)))
			saved.State = values("step", fmt.Sprint(step))
			saved = f.save(saved)
		}
		tr.threads = append(tr.threads, saved.ThreadKey.ID())
		tr.queries = append(tr.queries, segno.CheckpointQuery{Thread: saved.ThreadKey.ID()})
	}
	objects := []string{"a small object", strings.Repeat("a longer object ", 1000)}
	c := f.turn(f.head("thread 0"))
	c.Staged, c.Needs = f.stage(objects...), []segno.Hash{hash(objects[0]), hash(objects[1])}
	c.Entries, c.Checkpoint.Key, c.Checkpoint.State = nil, "turn key", &segno.Document{Type: "test/1", Data: c.Needs[0]}
	c.Pin = &segno.Pin{Checkpoint: c.Parent, Name: "a pin"}
	if _, ok := s.(segno.Chains); ok {
		c.Link = &segno.Link{Agent: "test", Session: "session"}
	}
	if x, ok := s.(segno.Workspaces); ok {
		f.ok(x.PutWorkspace(t.Context(), segno.WorkspaceRecord{ID: tr.workspace, Path: tr.path, Device: device, Inode: inode}))
		c.Workspace = &segno.WorkspaceState{Workspace: tr.workspace, Thread: c.Thread}
		c.Operation = &segno.Operation{ID: "operation", Workspace: tr.workspace, Thread: c.Thread, Verb: segno.VerbUndo}
	}
	f.commit(c)
	deleted := f.base("deleted thread", "")
	f.commit(deleted)
	f.ok(s.Delete(t.Context(), deleted.Thread))
	if x, ok := s.(segno.Leaser); ok {
		lease := segno.Lease{Thread: "thread 1", Owner: "the owner of the lease", Expires: time.Now().Add(1000 * time.Hour)}
		f.ok(errOf(x.Acquire(t.Context(), lease)))
	}
	tr.threads, tr.objects, tr.commits = append(tr.threads, deleted.Thread), c.Needs, f.find(segno.CheckpointQuery{})
	tr.want = tr.read(t.Context(), s)
	return tr
}

// Silent reads everything and describes the first result that is neither the written data nor an error. It
// returns "" if there is none. KindNotFound does not count as an error.
func (tr *DamageTrial) Silent(ctx context.Context, s segno.Store) string {
	for i, got := range tr.read(ctx, s) {
		if got != tr.want[i] && (!strings.Contains(got, errorMark) || strings.Contains(got, segno.KindNotFound.String())) {
			return fmt.Sprintf("read %.150q; want %.150q", got, tr.want[i])
		}
	}
	return ""
}
