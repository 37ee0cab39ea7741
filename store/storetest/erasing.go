package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
)

func erasing() []clause {
	return []clause{
		{"nothing is left", "of a purged thread no byte is left at rest: no entry, prompt, title, session, operation, pin name or file content of any age", nothingIsLeft},
		{"forks and others stay", "what a fork or another thread reaches stays whole when a thread is purged", forksStayWhole},
		{"parts are purged", "the parts of a purged thread are purged with it", partsArePurged},
		{"a purged name", "the name of a purged thread is not used again, and a late writer is refused", aPurgedName},
		{"writers meanwhile", "what other threads commit while deleted threads are erased is whole: forks, pins, files that both have, the state of a workspace", writersMeanwhile},
		{"erasing again", "Erase drops what was deleted before, and with nothing to erase it does nothing", erasingAgain},
	}
}

func erasingHeld() []clause {
	return []clause{{"a thread that runs", "a thread under a lease is not purged", aHeldThread}}
}

// secret is text that no other value in the store has. Its bytes hardly compress, so that
// a store that compresses keeps them as they are; its marker is for stores that write text.
type secret struct{ marker, noise string }

func newSecret(what string, n int) secret {
	h := name(what)
	r := rand.New(rand.NewChaCha8(h))
	noise := make([]byte, n)
	for i := range noise {
		noise[i] = byte(0x80 + r.IntN(0x80)) // within a JSON string, too
	}
	return secret{"planted-" + h.String()[:24], string(noise)}
}

func (s secret) text() string { return s.marker + s.noise }

// in reports whether any part of the secret is in raw.
func (s secret) in(raw []byte) bool {
	const window = 24
	if bytes.Contains(raw, []byte(s.marker)) {
		return true
	}
	for at := 0; at+window <= len(s.noise); at += 4096 {
		if bytes.Contains(raw, []byte(s.noise[at:at+window])) {
			return true
		}
	}
	return false
}

// planted is a thread with a secret in each of its parts.
func (f *fixture) planted(id segno.ThreadID) (head segno.Head, secrets map[string]secret) {
	f.Helper()
	secrets = map[string]secret{}
	plant := func(what string, n int) string {
		s := newSecret(string(id)+what, n)
		secrets[what] = s
		return s.text()
	}
	create := f.base(id, "")
	create.Create.Title = plant("title", 400)
	create.Link = &segno.Link{Agent: "claude", Session: "s", Start: epoch, Path: plant("link", 400)}
	head = f.commit(create)
	small, bulk := plant("small file", 400), plant("bulk file", 3<<20)
	c := f.next(head)
	c.Staged = f.stage(small, bulk, tree(small, bulk))
	c.Checkpoint.Workspace = &segno.Snapshot{Workspace: "w", Tree: name(tree(small, bulk))}
	c.Checkpoint.Prompt = plant("prompt", 400)
	c.Checkpoint.Meta = map[string]string{"found by": plant("meta", 400)}
	c.Entries[0].Body = []byte(`"` + plant("entry", 400) + `"`)
	head = f.commit(c)
	c = f.next(head)
	c.Entries[0].Body = []byte(`"` + plant("long entry", 600<<10) + `"`)
	head = f.commit(c)
	c = f.move(head, c.Parent, head.Tip)
	c.Pin = &segno.Pin{Checkpoint: head.Tip, Name: plant("pin", 400)}
	head = f.commit(c)
	if _, ok := f.store.(segno.Workspaces); !ok {
		return head, secrets
	}
	c = f.move(head, head.Tip, head.Tip)
	c.Operation = &segno.Operation{ID: segno.OperationID("op " + id), Workspace: "w", Thread: id, Verb: segno.VerbRedo, Time: epoch, Args: plant("operation", 400)}
	state := plant("workspace's file", 400)
	c.Staged = f.stage(state, tree(state))
	c.Workspace = &segno.WorkspaceState{Workspace: "w", Thread: id, Time: epoch, Snapshot: &segno.Snapshot{Workspace: "w", Tree: name(tree(state))}}
	return f.commit(c), secrets
}

func (f *fixture) purge(id segno.ThreadID) segno.Collection {
	f.Helper()
	done, err := segno.Purge(f.Context(), f.store, id, segno.CollectPolicy{Trace: trace})
	f.ok(err)
	return done
}

func nothingIsLeft(f *fixture) {
	kept := f.commit(f.snapped(f.thread(), "kept", noise(2<<20)))
	line := f.load(kept.Head)
	_, secrets := f.planted("purged")
	raw := f.o.Raw(f.T, f.store)
	for what, s := range secrets {
		if !s.in(raw) {
			f.Errorf("before the purge the secret of the %s cannot be found: the test sees too little", what)
		}
	}
	f.purge("purged")
	raw = f.o.Raw(f.T, f.store)
	for what, s := range secrets {
		if s.in(raw) {
			f.Errorf("the %s is still there", what)
		}
	}
	f.same("the other thread", f.load(kept.Head), line)
	f.holds("kept", noise(2<<20))
	if f.reopen != nil {
		f.reopen()
		f.same("the other thread, opened again", f.load(kept.Head), line)
		f.holds("kept", noise(2<<20))
		f.same("threads", f.threads(segno.ThreadQuery{}), []segno.ThreadID{kept.Thread})
	}
}

// snapped is a turn that pins a tree of files.
func (f *fixture) snapped(head segno.Head, files ...string) segno.Commit {
	f.Helper()
	c := f.next(head)
	c.Staged = f.stage(append(files, tree(files...))...)
	c.Checkpoint.Workspace = &segno.Snapshot{Workspace: "w", Tree: name(tree(files...))}
	return c
}

func forksStayWhole(f *fixture) {
	first := f.commit(f.snapped(f.thread(), "in the fork", "in both"))
	fork := f.commit(f.base("fork", first.Head))
	line := f.load(fork.Head)
	second := f.commit(f.snapped(first, "in both", "in another"))
	other := f.commit(f.snapped(f.thread(), "in another"))
	otherLine := f.load(other.Head)
	part := f.thread()
	member := f.commit(f.snapped(part, "of a member"))
	memberLine := f.load(member.Head)
	whole := f.next(other)
	whole.Checkpoint.Members = map[string]segno.CommitID{"part": member.Head}
	f.commit(whole)
	f.commit(f.snapped(second, "gone"))
	f.purge(first.Thread)
	f.purge(part.Thread)
	f.same("the fork's line", f.load(fork.Head), line)
	f.same("the other's line", f.load(other.Head), otherLine)
	f.same("the member's line", f.load(member.Head), memberLine)
	f.holds("in the fork", "in both", "in another", "of a member")
	if f.has("gone") {
		f.Fatal("an object that only the purged thread reached is still there")
	}
	_, err := f.store.Load(f.Context(), second.Head, segno.Window{})
	f.kind(err, segno.KindNotFound)
	f.turns(f.head("fork"), 2)
}

func partsArePurged(f *fixture) {
	_, secrets := f.planted("part")
	whole := f.thread()
	part := f.base("another part", "")
	part.Create.ParentThread, part.Create.Name = whole.Thread, "reviewer"
	s := newSecret("another part", 400)
	part.Create.Title = s.text()
	f.commit(part)
	f.purge(whole.Thread)
	raw := f.o.Raw(f.T, f.store)
	if s.in(raw) {
		f.Errorf("the part's title is still there")
	}
	if !secrets["title"].in(raw) {
		f.Errorf("a thread that is no part of it is gone")
	}
}

func aPurgedName(f *fixture) {
	head, _ := f.planted("purged")
	late := f.next(head)
	f.purge("purged")
	_, err := f.store.Commit(f.Context(), late)
	f.kind(err, segno.KindNotFound)
	again := f.base("purged", "")
	_, err = f.store.Commit(f.Context(), again)
	f.kind(err, segno.KindNotFound)
	_, err = f.store.Head(f.Context(), "purged")
	f.kind(err, segno.KindNotFound)
	_, err = segno.Purge(f.Context(), f.store, "purged", segno.CollectPolicy{Trace: trace})
	f.kind(err, segno.KindNotFound)
	f.same("threads", len(f.threads(segno.ThreadQuery{})), 0)
}

func erasingAgain(f *fixture) {
	head := f.commit(f.snapped(f.thread(), "deleted before"))
	f.ok(f.store.Delete(f.Context(), head.Thread))
	erase := func() segno.Collection {
		done, err := f.store.(segno.Eraser).Erase(f.Context(), segno.CollectPolicy{Trace: trace})
		f.ok(err)
		return done
	}
	dry, err := f.store.(segno.Eraser).Erase(f.Context(), segno.CollectPolicy{Trace: trace, DryRun: true})
	f.ok(err)
	f.holds("deleted before")
	done := erase()
	f.same("dropped", fmt.Sprint(done.Checkpoints, done.Objects), "2 2")
	f.same("counted by a dry run", fmt.Sprint(dry.Checkpoints, dry.Objects), "2 2")
	again := erase()
	f.same("dropped again", fmt.Sprint(again.Checkpoints, again.Objects), "0 0")
}

// writersMeanwhile deletes a thread in each round, and erases it while others begin to use
// what is its own. Each of them is refused, or finds later all that it committed.
func writersMeanwhile(f *fixture) {
	live, files := f.thread(), f.thread()
	var heads []segno.CommitID
	var contents []string
	for round := range 12 {
		shared := fmt.Sprintf("in both, in round %d", round)
		gone := f.commit(f.snapped(f.thread(), shared))
		c := f.next(gone)
		workspace := segno.WorkspaceID(fmt.Sprint("w", round))
		if x, ok := f.store.(segno.Workspaces); ok {
			f.ok(x.PutWorkspace(f.Context(), segno.WorkspaceRecord{ID: workspace, Path: "/" + string(workspace)}))
			c.Workspace = &segno.WorkspaceState{Workspace: workspace, Thread: gone.Thread, Time: epoch, Snapshot: &segno.Snapshot{Workspace: workspace, Tree: name(tree(shared))}}
			c.Needs = []segno.Hash{name(tree(shared))}
		}
		gone = f.commit(c)
		f.ok(f.store.Delete(f.Context(), gone.Thread))

		fork := f.base(segno.ThreadID(fmt.Sprint("fork ", round)), gone.Head)
		user := f.next(live)
		user.Pin = &segno.Pin{Checkpoint: gone.Head, Name: "a pin"}
		file := f.snapped(files, shared)
		if c.Workspace != nil {
			file.Workspace = &segno.WorkspaceState{Workspace: workspace, Thread: files.Thread, Time: epoch, Snapshot: file.Checkpoint.Workspace}
		}
		errs := f.whileErasing(fork, user, file)
		if errs[0] == nil {
			heads = append(heads, fork.ID)
		} else if f.kind(errs[0], segno.KindNotFound); true {
			_, err := f.store.Head(f.Context(), fork.Thread)
			f.kind(err, segno.KindNotFound)
		}
		if errs[1] == nil {
			heads = append(heads, user.ID, gone.Head)
		} else {
			f.kind(errs[1], segno.KindNotFound)
		}
		if errs[2] != nil {
			f.kind(errs[2], segno.KindNotFound)
			file.Staged = f.stage(shared, tree(shared))
			f.commit(file)
		}
		live, files = f.head(live.Thread), f.head(files.Thread)
		heads, contents = append(heads, files.Head), append(contents, shared, tree(shared))
		if x, ok := f.store.(segno.Workspaces); ok {
			rec, err := x.Workspace(f.Context(), workspace)
			f.ok(err)
			f.same("the workspace's thread", rec.State.Thread, files.Thread)
		}
	}
	_, err := f.store.(segno.Eraser).Erase(f.Context(), segno.CollectPolicy{Trace: trace})
	f.ok(err)
	for range 2 {
		for _, id := range heads {
			for _, n := range f.load(id) {
				if n.Checkpoint == nil || n.Checkpoint.Kind == segno.CheckpointTurn && len(n.Entries) == 0 {
					f.Fatalf("of %s, which is on the line of %s, there is something missing", n.ID, id)
				}
			}
		}
		f.holds(contents...)
		if f.reopen != nil {
			f.reopen()
		}
	}
}

// whileErasing commits all of c at once, as soon as an erasure looks at the first checkpoint.
func (f *fixture) whileErasing(c ...segno.Commit) []error {
	f.Helper()
	errs, began := make([]error, len(c)), make(chan struct{})
	var once sync.Once
	begin := func() { once.Do(func() { close(began) }) }
	var writers sync.WaitGroup
	for i := range c {
		writers.Go(func() {
			<-began
			_, errs[i] = f.store.Commit(f.Context(), c[i])
		})
	}
	slowly := func(ctx context.Context, o segno.Objects, c segno.Checkpoint, visit func(segno.Hash) bool) error {
		begin()
		for range 20 {
			if _, err := o.Has(ctx, name("nothing")); err != nil {
				return err
			}
		}
		return trace(ctx, o, c, visit)
	}
	_, err := f.store.(segno.Eraser).Erase(f.Context(), segno.CollectPolicy{Trace: slowly})
	begin()
	writers.Wait()
	if segno.KindOf(err) != segno.KindBusy {
		f.ok(err)
	}
	return errs
}

func aHeldThread(f *fixture) {
	head := f.thread()
	leaser := f.store.(segno.Leaser)
	l, err := leaser.Acquire(f.Context(), segno.Lease{Thread: head.Thread, Owner: "a run", Expires: f.now().Add(time.Minute)})
	f.ok(err)
	_, err = segno.Purge(f.Context(), f.store, head.Thread, segno.CollectPolicy{Trace: trace})
	f.kind(err, segno.KindRefused)
	f.ok(leaser.Release(f.Context(), l))
	f.purge(head.Thread)
}

// EraseFaults fails each operation of an erasure on the file system, one at a time and from it
// on. Afterwards other threads are whole, and erasing again leaves nothing of the deleted
// one. raw is all that is in dir.
func EraseFaults(t *testing.T, open func(t *testing.T, dir string, fsys vfs.FS) segno.Store, raw func(t *testing.T, dir string) []byte) {
	for _, forever := range []bool{false, true} {
		for n, fired := 0, true; fired; n++ {
			dir := filepath.Join(t.TempDir(), "store")
			f := onto(t, open(t, dir, vfs.OS), Options{})
			kept := f.commit(f.snapped(f.thread(), "kept", "shared"))
			line := f.load(kept.Head)
			s, bulk := newSecret("entry", 400), newSecret("bulk", 2<<20)
			c := f.snapped(f.thread(), bulk.text(), "shared")
			c.Entries[0].Body = []byte(`"` + s.text() + `"`)
			gone := f.commit(c)
			f.ok(f.store.Delete(f.Context(), gone.Thread))
			f.close()

			faults := faultfs.FailAt(n)
			faults.Forever = forever
			f.store = open(t, dir, faults.Wrap(vfs.OS))
			_, err := f.store.(segno.Eraser).Erase(f.Context(), segno.CollectPolicy{Trace: trace})
			if fired = faults.Fired(); fired != (err != nil) {
				t.Fatalf("operation %d failed is %v, and Erase returns %v", n, fired, err)
			}
			f.close()

			f.store = open(t, dir, vfs.OS)
			f.same("the other thread", f.load(kept.Head), line)
			_, err = f.store.(segno.Eraser).Erase(f.Context(), segno.CollectPolicy{Trace: trace})
			f.ok(err)
			f.holds("kept", "shared")
			f.sound()
			f.close()
			if left := raw(t, dir); s.in(left) || !fired && bulk.in(left) {
				t.Fatalf("operation %d: the deleted thread is still there", n)
			}
		}
	}
}
