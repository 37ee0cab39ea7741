package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// secret is text that no other value in the store contains. The noise hardly compresses, so that a store
// with compression keeps some of its bytes. The marker is for stores that write text.
type secret struct{ marker, noise string }

func newSecret(field string, n int) secret {
	h := hash(field)
	random := rand.New(rand.NewChaCha8(h))
	noise := make([]byte, n)
	for i := range noise {
		noise[i] = byte(0x80 + random.IntN(0x80)) // valid in a JSON string
	}
	return secret{"planted-" + h.String()[:24], string(noise)}
}

func (s secret) text() string { return s.marker + s.noise }

// in reports whether raw contains a part of the secret.
func (s secret) in(raw []byte) bool {
	const window = 24
	found := bytes.Contains(raw, []byte(s.marker))
	for at := 0; at+window <= len(s.noise) && !found; at += max(4096, len(s.noise)/64) {
		found = bytes.Contains(raw, []byte(s.noise[at:at+window]))
	}
	return found
}

// plant creates a thread with a secret in every field, and returns the secrets.
func (f *fixture) plant(id segno.ThreadID) map[string]secret {
	f.Helper()
	secrets := map[string]secret{}
	f.fill(id, func(field string, n int) string {
		s := newSecret(string(id)+field, n)
		if n > 0 {
			secrets[field] = s
		}
		return s.text()
	})
	return secrets
}

func (f *fixture) purge(id segno.ThreadID) {
	f.Helper()
	f.ok(errOf(timeline.Purge(f.Context(), f.store, id, segno.CollectPolicy{Trace: trace})))
}

// erase erases deleted threads and returns how many checkpoints and objects were dropped.
func (f *fixture) erase(p segno.CollectPolicy) string {
	f.Helper()
	p.Trace = trace
	done := returned(f.store.(segno.Eraser).Erase(f.Context(), p)).ok(f)
	return fmt.Sprint(done.Checkpoints, done.Objects)
}

// eraseTests search the raw bytes of the store for secrets, before and after a purge.
var eraseTests = []test{
	{"nothing is left", "a purge removes every byte of a thread, also of its parts, and no byte of other threads", func(f *fixture) {
		kept := f.commit(f.files(f.newThread(), "kept", noise(2<<20)))
		line := f.load(kept.Head)
		thread := segno.ThreadID("purged")
		secrets, others := f.plant(thread), f.plant("other")
		namespace, title := f.base("part", ""), newSecret("part", 400)
		namespace.Create.ParentThread, namespace.Create.Name, namespace.Create.Title = thread, "reviewer", title.text()
		f.commit(namespace)
		secrets["title of the part"] = title
		search := func(secrets map[string]secret, want bool) {
			f.Helper()
			raw := f.o.Raw(f.T, f.store)
			for field, s := range secrets {
				if s.in(raw) != want {
					f.Errorf("the raw bytes contain the secret in the %s: %v; want %v", field, !want, want)
				}
			}
		}
		search(secrets, true)
		f.purge(thread)
		search(secrets, false)
		search(others, true)
		for range 2 {
			f.same("the other thread", f.load(kept.Head), line)
			f.present("kept", noise(2<<20))
			f.same("the threads", f.threads(segno.ThreadQuery{}), []segno.ThreadID{"other", kept.Thread})
			if f.reopen != nil {
				f.reopen()
			}
		}
	}},
	{"forks and others stay", "a purge keeps what forks, members and other threads reach", func(f *fixture) {
		first := f.commit(f.files(f.newThread(), "in the fork", "in both"))
		fork := f.commit(f.base("fork", first.Head))
		second := f.commit(f.files(first, "in both", "in another"))
		other := f.commit(f.files(f.newThread(), "in another"))
		member := f.commit(f.files(f.newThread(), "of a member"))
		lines := map[segno.CommitID][]segno.Node{}
		for _, head := range []segno.Head{fork, other, member} {
			lines[head.Head] = f.load(head.Head)
		}
		c := f.turn(other)
		c.Checkpoint.Members = map[string]segno.CommitID{"part": member.Head}
		f.commit(c)
		f.commit(f.files(second, "gone"))
		f.purge(first.Thread)
		f.purge(member.Thread)
		for id, want := range lines {
			f.same("a line that stays", f.load(id), want)
		}
		f.present("in the fork", "in both", "in another", "of a member")
		f.missing("gone")
		f.kind(f.loadErr(second.Head), segno.KindNotFound)
		f.turns(f.head("fork"), 2)
	}},
	{"a purged name", "a purged thread and its name cannot be used again", func(f *fixture) {
		f.plant("purged")
		head := f.head("purged")
		f.purge("purged")
		for _, err := range []error{
			f.commitErr(f.turn(head)),
			f.commitErr(f.base("purged", "")),
			errOf(f.store.Head(f.Context(), "purged")),
			errOf(timeline.Purge(f.Context(), f.store, "purged", segno.CollectPolicy{Trace: trace})),
		} {
			f.kind(err, segno.KindNotFound)
		}
		f.same("the number of threads", len(f.threads(segno.ThreadQuery{})), 0)
	}},
	{"erasing again", "Erase drops threads that were deleted before; a second Erase drops nothing", func(f *fixture) {
		head := f.commit(f.files(f.newThread(), "deleted before"))
		f.ok(f.store.Delete(f.Context(), head.Thread))
		f.same("a dry run", f.erase(segno.CollectPolicy{DryRun: true}), "2 2")
		f.present("deleted before")
		f.same("dropped", f.erase(segno.CollectPolicy{}), "2 2")
		f.same("dropped again", f.erase(segno.CollectPolicy{}), "0 0")
	}},
	{"writers meanwhile", "a commit during an erasure is refused, or all that it refers to stays", testWritersMeanwhile},
}

// leasedEraseTests test the purge of a thread on which an agent runs.
var leasedEraseTests = []test{
	{"a leased thread", "a thread with a lease is not purged", func(f *fixture) {
		head := f.newThread()
		l := f.acquire(head.Thread, "a run")
		f.kind(errOf(timeline.Purge(f.Context(), f.store, head.Thread, segno.CollectPolicy{Trace: trace})), segno.KindRefused)
		f.ok(f.store.(segno.Leaser).Release(f.Context(), l))
		f.purge(head.Thread)
	}},
}

// testWritersMeanwhile deletes a thread in each round and erases it while others commit: a fork of the
// thread, a pin on it, and a turn with the same file that also takes over the state of its workspace.
func testWritersMeanwhile(f *fixture) {
	users, files := f.newThread(), f.newThread()
	var heads []segno.CommitID
	var contents []string
	workspaces, hasWorkspaces := f.store.(segno.Workspaces)
	for round := range 12 {
		shared, workspace := fmt.Sprint("file of round ", round), segno.WorkspaceID(fmt.Sprint("w", round))
		inWorkspace := func(c segno.Commit) segno.Commit {
			if hasWorkspaces {
				c.Workspace = &segno.WorkspaceState{Workspace: workspace, Thread: c.Thread, Time: epoch,
					Snapshot: &segno.Snapshot{Workspace: workspace, Tree: hash(tree(shared))}}
			}
			return c
		}
		if hasWorkspaces {
			f.ok(workspaces.PutWorkspace(f.Context(), segno.WorkspaceRecord{ID: workspace, Path: "/" + string(workspace)}))
		}
		gone := f.commit(f.files(f.newThread(), shared))
		gone = f.commit(inWorkspace(f.turn(gone)))
		f.ok(f.store.Delete(f.Context(), gone.Thread))

		fork, user, file := f.base(segno.ThreadID(fmt.Sprint("fork ", round)), gone.Head), f.turn(users), inWorkspace(f.files(files, shared))
		user.Pin = &segno.Pin{Checkpoint: gone.Head, Name: "a pin"}
		errs := f.commitWhileErasing(fork, user, file)
		for i, kept := range [][]segno.CommitID{{fork.ID}, {user.ID, gone.Head}, {file.ID}} {
			if errs[i] == nil {
				heads = append(heads, kept...)
			} else {
				f.kind(errs[i], segno.KindNotFound)
			}
		}
		if errs[0] != nil {
			f.kind(errOf(f.store.Head(f.Context(), fork.Thread)), segno.KindNotFound)
		}
		if errs[2] != nil {
			file.Staged = f.stage(shared, tree(shared))
			f.commit(file)
		}
		users, files = f.head(users.Thread), f.head(files.Thread)
		heads, contents = append(heads, files.Head), append(contents, shared, tree(shared))
		if hasWorkspaces {
			rec := returned(workspaces.Workspace(f.Context(), workspace)).ok(f)
			f.same("the thread of the workspace", rec.State.Thread, files.Thread)
		}
	}
	f.erase(segno.CollectPolicy{})
	for range 2 {
		for _, id := range heads {
			for _, n := range f.load(id) {
				if n.Checkpoint == nil || n.Checkpoint.Kind == segno.CheckpointTurn && len(n.Entries) == 0 {
					f.Fatalf("commit %s on the line of %s is incomplete", n.ID, id)
				}
			}
		}
		f.present(contents...)
		if f.reopen != nil {
			f.reopen()
		}
	}
}

// commitWhileErasing makes each commit at the moment at which an erasure reads the first checkpoint.
func (f *fixture) commitWhileErasing(commits ...segno.Commit) []error {
	f.Helper()
	errs, started := make([]error, len(commits)), make(chan struct{})
	start := sync.OnceFunc(func() { close(started) })
	var writers sync.WaitGroup
	for i, c := range commits {
		writers.Go(func() {
			<-started
			errs[i] = f.commitErr(c)
		})
	}
	slowTrace := func(ctx context.Context, o segno.Objects, c segno.Checkpoint, visit func(segno.Hash) bool) error {
		start()
		for range 20 {
			if _, err := o.Has(ctx, hash("nothing")); err != nil {
				return err
			}
		}
		return trace(ctx, o, c, visit)
	}
	_, err := f.store.(segno.Eraser).Erase(f.Context(), segno.CollectPolicy{Trace: slowTrace})
	start()
	writers.Wait()
	if segno.KindOf(err) != segno.KindBusy {
		f.ok(err)
	}
	return errs
}
