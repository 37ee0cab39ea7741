// Package storerig has tests of stores that need the file system of internal/vfs. The tests for every
// store are in store/storetest.
package storerig

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/google/go-cmp/cmp"
)

// EraseFaults tests that an erasure survives every failure of the file system. Each round fails one
// operation, or that one and all later ones. Afterwards another thread must be complete, and a second
// erasure must leave nothing of the deleted thread; if hasPacks is set, a pack of the first one may stay, which a
// collection removes later. raw returns all bytes in dir.
func EraseFaults(t *testing.T, hasPacks bool, open func(t *testing.T, dir string, fsys vfs.FS) segno.Store, raw func(t *testing.T, dir string) []byte) {
	for _, forever := range []bool{false, true} {
		for n, fired := 0, true; fired; n++ {
			dir := filepath.Join(t.TempDir(), "store")
			e := eraseTest{T: t, store: open(t, dir, vfs.OS)}
			e.addThread("kept", "a kept entry", "a kept object", "a shared object")
			line := e.load("kept")
			entry, bulk := noise(400), noise(2<<20)
			e.addThread("deleted", entry, bulk, "a shared object")
			e.ok(e.store.Delete(t.Context(), "deleted"))
			e.ok(e.store.Close())

			faults := faultfs.FailAt(n)
			faults.Forever = forever
			e.store = open(t, dir, faults.Wrap(vfs.OS))
			err := e.erase()
			if fired = faults.Fired(); fired != (err != nil) {
				t.Fatalf("operation %d failed: %v; Erase returned %v", n, fired, err)
			}
			e.ok(e.store.Close())

			e.store = open(t, dir, vfs.OS)
			if diff := cmp.Diff(line, e.load("kept")); diff != "" {
				t.Fatalf("operation %d: the other thread differs:\n%s", n, diff)
			}
			e.ok(e.erase())
			for _, data := range []string{"a kept object", "a shared object"} {
				_, err := e.store.Objects().Get(t.Context(), segno.HashOf([]byte(data)))
				e.ok(err)
			}
			e.check()
			e.ok(e.store.Close())
			left := raw(t, dir)
			if bytes.Contains(left, []byte(entry)[:24]) || !(fired && hasPacks) && bytes.Contains(left, []byte(bulk)[:24]) {
				t.Fatalf("operation %d: the deleted thread is still in the files", n)
			}
		}
	}
}

// noise returns text that hardly compresses, so that a store keeps some of its bytes unchanged.
func noise(n int) string {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(0x80 + random.IntN(0x80)) // valid within a JSON string
	}
	return string(text)
}

type eraseTest struct {
	*testing.T
	store segno.Store
}

func (e *eraseTest) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// addThread creates a thread with an entry and a checkpoint whose tree lists the objects.
func (e *eraseTest) addThread(id segno.ThreadID, entry string, objects ...string) {
	e.Helper()
	b := e.store.Objects().Batch()
	defer b.Close()
	list := ""
	for _, data := range objects {
		name, err := b.Put(e.Context(), []byte(data))
		e.ok(err)
		list += name.String() + "\n"
	}
	name, err := b.Put(e.Context(), []byte(list))
	e.ok(err)
	staged, err := b.Stage(e.Context())
	e.ok(err)
	_, err = e.store.Commit(e.Context(), segno.Commit{ID: segno.CommitID("commit of " + id), Thread: id, Create: &segno.Thread{ID: id},
		Staged:     staged,
		Entries:    []segno.Entry{{Kind: segno.EntryNote, Body: json.RawMessage(`"` + entry + `"`)}},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Workspace: &segno.Snapshot{Workspace: "w", Tree: name}}})
	e.ok(err)
}

func (e *eraseTest) load(id segno.ThreadID) *segno.Line {
	e.Helper()
	head, err := e.store.Head(e.Context(), id)
	e.ok(err)
	line, err := e.store.Load(e.Context(), head.Head, segno.Window{Entries: true})
	e.ok(err)
	return line
}

func (e *eraseTest) erase() error {
	_, err := e.store.(segno.Eraser).Erase(e.Context(), segno.CollectPolicy{Trace: trace})
	return err
}

func (e *eraseTest) check() {
	e.Helper()
	if k, ok := e.store.(segno.Checker); ok {
		_, err := k.Check(e.Context(), segno.CheckPolicy{Trace: trace}, func(err error) bool {
			e.Errorf("check: %v", err)
			return true
		})
		e.ok(err)
	}
}

// trace visits the tree of a checkpoint and the objects that it lists.
func trace(ctx context.Context, o segno.Objects, c segno.Checkpoint, visit func(segno.Hash) bool) error {
	if c.Tree().IsZero() || !visit(c.Tree()) {
		return nil
	}
	list, err := o.Get(ctx, c.Tree())
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(list)) {
		h, err := segno.ParseHash(strings.TrimSpace(line))
		if err != nil {
			return err
		}
		visit(h)
	}
	return nil
}
