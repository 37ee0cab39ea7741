package file

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/google/go-cmp/cmp"
)

var makeFixture = flag.Bool("fixture", false, "write testdata for the present version; one that was released is never written again")

const fixtureText = "an object that was put when this version was new"

// fixtureCheckpoint lists all values, because a fixture must not change with the domain.
func fixtureCheckpoint() *segno.Checkpoint {
	state := segno.HashOf([]byte(fixtureText))
	return &segno.Checkpoint{ID: "one", Thread: "a:b/C", Parent: "base", Seq: 2,
		Kind: segno.CheckpointTurn, Turn: 7, Time: time.Unix(1767225600, 123456789).UTC(), Step: 3, Agent: "claude", Prompt: "fix\x00 the bug\xff", Label: "a label",
		Key: "key", Interrupted: true, Shared: true, Amends: "older", Files: segno.Counts{Added: 1, Modified: 2, Deleted: 3}, Shell: 4,
		Session: &segno.Position{Agent: "claude", Session: "s", Dir: "/dir", Path: "/p\xff", Leaf: "leaf", Offset: 1 << 60, SHA256: segno.HashOf(nil),
			Digest: []byte{0, 1, 255}, Log: state, Sidecars: state, Version: "2.1"},
		Workspace: &segno.Snapshot{Workspace: "w", Root: "/root\xff", Tree: state, Times: state, Files: 3, Bytes: 1 << 61,
			Unread: []string{"a", "b\xffc"}, Git: &segno.Git{Head: "abc", Branch: "main", Operation: "rebase"}},
		State:   &segno.Document{Type: "todo/2", Data: state},
		World:   &segno.Document{Type: "world/1", Data: state},
		Members: map[string]segno.CommitID{"one": "m1", "two": "m2"}, Meta: map[string]string{"k": "v", "\ufdd0": "\xff"}}
}

func fixtureLink() segno.Link {
	return segno.Link{Agent: "claude", Session: "s", Dir: "/d", Path: "/p", Start: time.Unix(1767225600, 0).UTC(), Reason: "start",
		Fidelity: segno.FidelityRebuilt, At: "base", Note: "a note"}
}

func fixtureEntries() []segno.Entry {
	e := segno.Entry{Kind: segno.EntryMessage, Turn: 1, Session: "s", Time: time.Unix(1767225600, 5).UTC(), ID: "id", Name: "user",
		Body: []byte(`{"role":"user","content":[{"type":"text","text":"what was said when this version was new"}]}`)}
	n := e
	n.Body = []byte(" [9007199254740993,\n1e400] ")
	return []segno.Entry{e, n}
}

func writeFixture(t *testing.T, dir string) {
	t.Helper()
	s := open(t, dir, Options{FS: noSync{vfs.OS}})
	defer closeStore(t, s)
	b := s.Objects().Batch()
	_, err := b.Put(t.Context(), []byte(fixtureText))
	must(t, err)
	staged, err := b.Stage(t.Context())
	must(t, err)
	link := fixtureLink()
	mustCommit(t, s, segno.Commit{ID: "base", Thread: "a:b/C", Create: &segno.Thread{ID: "a:b/C", Title: "a title"}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	mustCommit(t, s, segno.Commit{ID: "one", Thread: "a:b/C", Parent: "base", Expect: "base", Staged: staged,
		Checkpoint: fixtureCheckpoint(), Entries: fixtureEntries(), Link: &link, Pin: &segno.Pin{Checkpoint: "base", Name: "a pin"},
		Workspace: &segno.WorkspaceState{Workspace: "w/1", Thread: "a:b/C", By: "one"},
		Operation: &segno.Operation{ID: "op", Workspace: "w/1", Thread: "a:b/C", Verb: segno.VerbRestore, Args: "x", Before: segno.Pointers{Head: "base"}}})
	_, err = s.Acquire(t.Context(), segno.Lease{Thread: "a:b/C", Owner: "somebody", Expires: time.Now().Add(time.Hour)})
	must(t, err)
	mustCommit(t, s, segno.Commit{ID: "undo", Thread: "a:b/C", Expect: "one", Epoch: 1, Move: &segno.Move{Head: "base", Tip: "one"}})
	mustCommit(t, s, segno.Commit{ID: "fork", Thread: "fork", Parent: "one", Create: &segno.Thread{ID: "fork", Parent: "one"}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Turn: 7}})
	mustCommit(t, s, baseCommit("deleted"))
	must(t, s.Delete(t.Context(), "deleted"))
	must(t, s.PutWorkspace(t.Context(), segno.WorkspaceRecord{ID: "w/1", Path: "/w\xff", Device: 1 << 63, Inode: 1<<64 - 1, Moved: []string{"/v"}}))
}

// TestFixtures reads a store of every released version, and writes to it.
func TestFixtures(t *testing.T) {
	if *makeFixture {
		writeFixture(t, filepath.Join("testdata", "v1"))
	}
	versions, err := filepath.Glob(filepath.Join("testdata", "v*"))
	if err != nil || len(versions) == 0 {
		t.Fatal(versions, err)
	}
	for _, v := range versions {
		for _, cached := range []bool{true, false} {
			dir := t.TempDir()
			must(t, os.CopyFS(dir, os.DirFS(v)))
			if !cached {
				must(t, os.Remove(filepath.Join(dir, "changes")))
			}
			checkFixture(t, dir)
		}
	}
}

func checkFixture(t *testing.T, dir string) {
	t.Helper()
	s := open(t, dir, Options{FS: noSync{vfs.OS}})
	defer closeStore(t, s)
	line, err := s.Load(t.Context(), "fork", segno.Window{Entries: true})
	must(t, err)
	want := segno.Node{ID: "one", Thread: "a:b/C", Parent: "base", Seq: 2, Checkpoint: fixtureCheckpoint(), Entries: fixtureEntries()}
	if diff := cmp.Diff(want, line.Commits[1]); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(segno.Head{Thread: "a:b/C", Head: "base", Tip: "one", Seq: 3, Turn: 7, Epoch: 1, Link: fixtureLink()}, headOf(t, s, "a:b/C")); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if got, err := s.Objects().Get(t.Context(), segno.HashOf([]byte(fixtureText))); err != nil || string(got) != fixtureText {
		t.Fatalf("%q, %v", got, err)
	}
	checkFixtureLists(t, s)
	storetest.Phases(t, s)
	mustCommit(t, s, turnCommit(headOf(t, s, "a:b/C"), 8))
	storetest.Phases(t, s)
}

func checkFixtureLists(t *testing.T, s *Store) {
	t.Helper()
	for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{Pinned: true}) {
		if err != nil || c.ID != "base" || c.Label != "a pin" {
			t.Fatal(c, err)
		}
	}
	w, err := s.Workspace(t.Context(), "w/1")
	if diff := cmp.Diff(segno.WorkspaceRecord{ID: "w/1", Path: "/w\xff", Device: 1 << 63, Inode: 1<<64 - 1, Moved: []string{"/v"},
		State: segno.WorkspaceState{Workspace: "w/1", Thread: "a:b/C", By: "one"}}, w); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
	for o, err := range s.Operations(t.Context(), "w/1") {
		if err != nil || o.ID != "op" || o.Args != "x" {
			t.Fatal(o, err)
		}
	}
	ids, err := threadsOf(t, s)
	if diff := cmp.Diff([]segno.ThreadID{"a:b/C", "fork"}, ids); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
}
