package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// logOf returns the path of a thread's log.
func logOf(dir string, id segno.ThreadID) string {
	return filepath.Join(dir, "threads", nameOf(id), "log.jsonl")
}

func wantKind(t testing.TB, err error, want segno.Kind) {
	t.Helper()
	if err == nil || segno.KindOf(err) != want {
		t.Fatalf("the error is %v; want one of kind %q", err, want)
	}
}

func headOf(t testing.TB, s *Store, id segno.ThreadID) segno.Head {
	t.Helper()
	head, err := s.Head(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// threadsOf returns the sorted threads that a store lists, and the error that ends the list.
func threadsOf(t testing.TB, s *Store) (ids []segno.ThreadID, err error) {
	t.Helper()
	for x, listErr := range s.Threads(t.Context(), segno.ThreadQuery{}) {
		if listErr != nil {
			err = errors.Join(err, listErr)
			continue
		}
		ids = append(ids, x.ID)
	}
	slices.Sort(ids)
	return ids, err
}

// seed makes a store with a thread that has a base and n turns.
func seed(t testing.TB, dir string, id string, n int) segno.Head {
	t.Helper()
	s := open(t, dir, Options{FS: noSync{vfs.OS}})
	defer closeStore(t, s)
	head := mustCommit(t, s, baseCommit(id))
	for i := range n {
		head = mustCommit(t, s, turnCommit(head, i))
	}
	return head
}

// turnCommit returns a small turn. Its id and content depend only on i.
func turnCommit(head segno.Head, i int) segno.Commit {
	id := segno.CommitID(string(head.Thread) + " turn " + string(rune('0'+i)))
	return segno.Commit{ID: id, Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch,
		Entries:    []segno.Entry{{Kind: segno.EntryMessage, Turn: i + 1, Name: "user", Body: []byte(`"hello"`)}},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: i + 1}}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func sizeOf(t testing.TB, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			sum += fi.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// noSync is a disk that does not sync, because no test causes a power cut. Traces show the
// syncs.
type noSync struct{ vfs.FS }

type noSyncFile struct{ vfs.File }

func (noSyncFile) Sync() error { return nil }

func (noSync) SyncDir(string) error { return nil }

func (n noSync) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := n.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return noSyncFile{f}, nil
}

// readErrors reads all checkpoints with their lines and objects, and returns every error.
func readErrors(t testing.TB, s *Store) (all []error) {
	t.Helper()
	for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{}) {
		if err == nil {
			_, err = s.Load(t.Context(), c.ID, segno.Window{Entries: true})
		}
		for _, name := range c.Refs() {
			_, objectErr := s.Objects().Get(t.Context(), name)
			err = errors.Join(err, objectErr)
		}
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}
