package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// Trial is a store's contents for a test that damages the stored data and then reads it: each
// read must return the data that was written, or an error.
type Trial struct {
	commits []segno.CommitID
	objects []segno.Hash
	truth   []string
}

// Each of the trialThreads has saved states; trialDeleted is deleted.
const (
	trialThreads   = 3
	trialDeleted   = "thread deleted"
	trialWorkspace = "workspace"
	trialKey       = "turn key"
)

// NewTrial fills a store.
func NewTrial(t testing.TB, s segno.Store) *Trial {
	t.Helper()
	sv, rnd := saver.New(s), rand.New(rand.NewPCG(7, 7))
	for n := range trialThreads {
		saved := saver.Snapshot{ThreadKey: saver.ThreadKey{Thread: fmt.Sprint("thread ", n)}}
		for step := range 12 {
			text := make([]byte, 200+rnd.IntN(3000))
			for i := range text {
				text[i] = 'a' + byte(rnd.IntN(26))
			}
			saved.Messages = append(saved.Messages, json.RawMessage(fmt.Sprintf("%q", text)))
			saved.State = map[string]json.RawMessage{"step": json.RawMessage(fmt.Sprint(step))}
			var err error
			if saved, err = sv.Save(t.Context(), saved); err != nil {
				t.Fatal(err)
			}
		}
	}
	tr := &Trial{}
	tr.addRest(t, s)
	for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		tr.commits = append(tr.commits, c.ID)
	}
	tr.truth = tr.read(t.Context(), s)
	return tr
}

// addRest adds what savers do not write, as far as the store keeps it: objects, a chain, an
// operation, a pin, a lease, a thread that is deleted.
func (tr *Trial) addRest(t testing.TB, s segno.Store) {
	t.Helper()
	ctx := t.Context()
	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const id = segno.ThreadID("thread 0")
	head, err := s.Head(ctx, id)
	try(err)
	b := s.Objects().Batch()
	defer b.Close()
	for _, data := range []string{"a small object", strings.Repeat("a longer object ", 1000)} {
		name, err := b.Put(ctx, []byte(data))
		try(err)
		tr.objects = append(tr.objects, name)
	}
	staged, err := b.Stage(ctx)
	try(err)
	c := segno.Commit{ID: "with the rest", Thread: id, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch, Staged: staged, Needs: tr.objects,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1, Key: trialKey, State: &segno.Document{Type: "test/1", Data: tr.objects[0]}},
		Pin:        &segno.Pin{Checkpoint: head.Head, Name: "a pin"}}
	if _, ok := s.(segno.Chains); ok {
		c.Link = &segno.Link{Agent: "test", Session: "session"}
	}
	if x, ok := s.(segno.Workspaces); ok {
		try(x.PutWorkspace(ctx, segno.WorkspaceRecord{ID: trialWorkspace, Path: "/work", Device: 5, Inode: 77}))
		c.Workspace = &segno.WorkspaceState{Workspace: trialWorkspace, Thread: id}
		c.Operation = &segno.Operation{ID: "operation", Workspace: trialWorkspace, Thread: id, Verb: segno.VerbUndo}
	}
	_, err = s.Commit(ctx, c)
	try(err)
	_, err = s.Commit(ctx, segno.Commit{ID: "base of " + trialDeleted, Thread: trialDeleted, Create: &segno.Thread{ID: trialDeleted}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	try(err)
	try(s.Delete(ctx, trialDeleted))
	if x, ok := s.(segno.Leaser); ok {
		_, err = x.Acquire(ctx, segno.Lease{Thread: "thread 1", Owner: "the owner of the lease", Expires: time.Now().Add(1000 * time.Hour)})
		try(err)
	}
}

// Silent reads everything and describes the first result that is neither the data written
// nor an error; "" if there is none. KindNotFound does not count as an error.
func (tr *Trial) Silent(ctx context.Context, s segno.Store) string {
	for i, now := range tr.read(ctx, s) {
		if now != tr.truth[i] && (!strings.Contains(now, trialError) || strings.Contains(now, segno.KindNotFound.String())) {
			return fmt.Sprintf("it is %.150q, not %.150q", now, tr.truth[i])
		}
	}
	return ""
}

const trialError = "error: "

// read reads everything and returns what it found, or the kind of each error.
func (tr *Trial) read(ctx context.Context, s segno.Store) (found []string) {
	say := func(what string, x any, err error) {
		if err != nil {
			x = trialError + segno.KindOf(err).String()
		}
		text, err := json.Marshal(x)
		if err != nil {
			text = []byte(err.Error())
		}
		found = append(found, what+": "+string(text))
	}
	for n := range trialThreads {
		id := segno.ThreadID(fmt.Sprint("thread ", n))
		head, err := s.Head(ctx, id)
		say("head of "+string(id), head, err)
		saved, err := saver.New(s).Load(ctx, saver.ThreadKey{Thread: string(id)})
		say("what is saved in "+string(id), saved, err)
		all, err := listed(s.Checkpoints(ctx, segno.CheckpointQuery{Thread: id}))
		say("checkpoints of "+string(id), all, err)
	}
	tr.readRest(ctx, s, say)
	for _, id := range tr.commits {
		line, err := s.Load(ctx, id, segno.Window{Entries: true})
		say("line of "+string(id), line, err)
	}
	all, err := listed(s.Threads(ctx, segno.ThreadQuery{}))
	say("threads", all, err)
	return found
}

// readRest reads what addRest added.
func (tr *Trial) readRest(ctx context.Context, s segno.Store, say func(what string, x any, err error)) {
	_, err := s.Head(ctx, trialDeleted)
	say("head of the deleted thread", "", err)
	for _, name := range tr.objects {
		data, err := s.Objects().Get(ctx, name)
		say("object "+name.String(), data, err)
		has, err := s.Objects().Has(ctx, name)
		say("has object "+name.String(), has, err)
	}
	checkpoints := func(what string, q segno.CheckpointQuery) {
		all, err := listed(s.Checkpoints(ctx, q))
		say(what, all, err)
	}
	checkpoints("checkpoints with the key", segno.CheckpointQuery{Key: trialKey})
	checkpoints("checkpoints with a pin", segno.CheckpointQuery{Pinned: true})
	if x, ok := s.(segno.Leaser); ok {
		for n := range trialThreads {
			held, err := x.LeaseOf(ctx, segno.ThreadID(fmt.Sprint("thread ", n)))
			say(fmt.Sprint("lease of thread ", n), held, err)
		}
	}
	if x, ok := s.(segno.Chains); ok {
		all, err := listed(x.Chain(ctx, "thread 0"))
		say("chain", all, err)
		threads, err := listed(s.Threads(ctx, segno.ThreadQuery{Session: "session"}))
		say("threads of the session", threads, err)
	}
	if x, ok := s.(segno.Workspaces); ok {
		w, err := x.Workspace(ctx, trialWorkspace)
		say("workspace", w, err)
		found, err := listed(x.FindWorkspaces(ctx, []string{"/work"}, 0, 0))
		say("workspaces by path", found, err)
		found, err = listed(x.FindWorkspaces(ctx, nil, 5, 77))
		say("workspaces by inode", found, err)
		operations, err := listed(x.Operations(ctx, trialWorkspace))
		say("operations", operations, err)
	}
}

// listed reads a list to its end or to its first error.
func listed[T any](list iter.Seq2[T, error]) (all []T, err error) {
	for x, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}
