package sqlite

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/google/go-cmp/cmp"
)

var makeFixture = flag.Bool("fixture", false, "write testdata for the present version; one that was released is never written again")

const fixtureText = "an object that was put when this version was new, long enough to be compressed, to be compressed, to be compressed"

// fixtureCheckpoint lists all values, because a fixture must not change with the domain.
func fixtureCheckpoint(state segno.Hash) *segno.Checkpoint {
	return &segno.Checkpoint{ID: "one", Thread: "thread", Parent: "base", Seq: 2,
		Kind: segno.CheckpointTurn, Turn: 7, Time: time.Unix(1767225600, 123456789).UTC(), Agent: "claude",
		Prompt: "fix\x00 the bug\xff", Label: "a label",
		Key: "key", Interrupted: true, Shared: true, Amends: "older", Files: segno.Counts{Added: 1, Modified: 2, Deleted: 3}, Shell: 4,
		Session: &segno.Position{Agent: "claude", Session: "s", Dir: "/dir", Path: "/p\xff", Leaf: "leaf", Offset: 1 << 60,
			SHA256: segno.HashOf(nil),
			Digest: []byte{0, 1, 255}, Log: state, Sidecars: state, Version: "2.1"},
		Workspace: &segno.Snapshot{Workspace: "w", Root: "/root\xff", Tree: state, Times: state, Files: 3, Bytes: 1 << 61,
			Unread: []string{"a", "b\xffc"}, Git: &segno.Git{Head: "abc", Branch: "main", Operation: "rebase"}},
		State:   &segno.Document{Type: "todo/2", Data: state},
		World:   &segno.Document{Type: "world/1", Data: state},
		Members: map[string]segno.CommitID{"one": "m1", "two": "m2"}}
}

func fixtureLink() *segno.Link {
	return &segno.Link{Agent: "claude", Session: "s", Dir: "/d", Path: "/p", Start: time.Unix(1767225600, 0).UTC(), Reason: "start",
		Fidelity: segno.FidelityRebuilt, At: "base", Note: "a note"}
}

func fixtureEntries() []segno.Entry {
	e := segno.Entry{Kind: segno.EntryMessage, Turn: 1, Session: "s", Time: time.Unix(1767225600, 5).UTC(), ID: "id", Name: "user",
		Body: []byte(`{"role":"user","content":[{"type":"text","text":"what was said when this version was new"}]}`)}
	n := e
	n.Body = []byte(`9007199254740993`)
	return []segno.Entry{e, n}
}

func writeFixture(t *testing.T, dir string) {
	t.Helper()
	head := seed(t, dir)
	s := openIn(t, dir, Options{})
	defer s.Close()
	b := s.Objects().Batch()
	name, err := b.Put(t.Context(), []byte(fixtureText))
	if err != nil {
		t.Fatal(err)
	}
	staged, err := b.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := createPack(s.options.FS, s.packs.dir, newPackName(), time.Unix(1767225600, 0))
	if err != nil {
		t.Fatal(err)
	}
	plain := func(dst, data []byte) ([]byte, record.Encoding) { return append(dst, data...), record.Plain }
	for _, compress := range []func(dst, data []byte) ([]byte, record.Encoding){s.records.Compressor.Small, s.records.Compressor.Fast,
		plain} {
		data := []byte(fixtureText + string(rune('a'+len(p.entries))))
		name := segno.HashOf(data)
		if err := p.add(name, int64(len(data)), s.records.EncodeObject(nil, name, data, compress)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.finish(); err != nil {
		t.Fatal(err)
	}
	staged.Packs = []string{p.name}
	_, err = s.Commit(t.Context(), segno.Commit{ID: "one", Thread: "thread", Parent: head.Head, Expect: head.Head, Staged: staged,
		Checkpoint: fixtureCheckpoint(name), Entries: fixtureEntries(), Link: fixtureLink(), Pin: &segno.Pin{Checkpoint: "base",
			Name: "a pin"},
		Workspace: &segno.WorkspaceState{Workspace: "w", Thread: "thread", By: "one"},
		Operation: &segno.Operation{ID: "op", Workspace: "w", Thread: "thread", Verb: segno.VerbRestore, Args: "x",
			Before: segno.Pointers{Head: "base"}}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFixtures reads a store of every version, and moves and commits in it.
func TestFixtures(t *testing.T) {
	if *makeFixture {
		writeFixture(t, filepath.Join("testdata", fmt.Sprint("v", schemaVersion)))
	}
	versions, err := os.ReadDir("testdata")
	if err != nil || len(versions) == 0 {
		t.Fatal(versions, err)
	}
	for _, v := range versions {
		if v.Name() == "fuzz" {
			continue
		}
		t.Run(v.Name(), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", v.Name()))); err != nil {
				t.Fatal(err)
			}
			s := openIn(t, dir, Options{})
			defer s.Close()
			line, err := s.Load(t.Context(), "one", segno.Window{Entries: true})
			if err != nil {
				t.Fatal(err)
			}
			want := segno.Node{ID: "one", Thread: "thread", Parent: "base", Seq: 2,
				Checkpoint: fixtureCheckpoint(segno.HashOf([]byte(fixtureText))), Entries: fixtureEntries()}
			if diff := cmp.Diff(want, line.Commits[1]); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			for _, end := range []string{"", "a", "b", "c"} {
				got, err := s.Objects().Get(t.Context(), segno.HashOf([]byte(fixtureText+end)))
				if err != nil || string(got) != fixtureText+end {
					t.Fatalf("%q, %v", got, err)
				}
			}
			head, err := s.Head(t.Context(), "thread")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*fixtureLink(), head.Link); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			checkClean(t, s)
			head, err = s.Commit(t.Context(), segno.Commit{ID: "move", Thread: "thread", Expect: head.Head, Epoch: head.Epoch,
				Move: &segno.Move{Head: "base", Tip: head.Tip}, Operation: &segno.Operation{ID: "undo", Workspace: "w",
					Thread: "thread", Verb: segno.VerbUndo, Before: segno.Pointers{Head: "one"}, After: segno.Pointers{Head: "base"}}})
			if err != nil || head.Head != "base" {
				t.Fatal(head, err)
			}
			for i := range 20 {
				if head, err = s.Commit(t.Context(), stepCommit(head, step(testRand(1), i), i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openIn(t, dir, Options{})
			defer s.Close()
			if got, err := s.Head(t.Context(), "thread"); err != nil || got != head {
				t.Fatal(got, err)
			}
			checkClean(t, s)
			// An older store keeps its pages unchanged, because an older segno may have it open.
			wantSums(t, s.Path(), s.hasSums)
			if want := v.Name() != "v1" && v.Name() != "v2"; s.hasSums != want {
				t.Errorf("pages have checksums: %v; want %v", s.hasSums, want)
			}
		})
	}
}
