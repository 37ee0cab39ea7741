package file

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// TestChangesIsACache damages the file changes in many ways. A process that then opens the store
// must find all records of the logs.
func TestChangesIsACache(t *testing.T) {
	lines := func(data []byte) [][]byte { return bytes.SplitAfter(data, []byte("\n")) }
	for name, damage := range map[string]func(data []byte) []byte{
		"intact":           func(data []byte) []byte { return data },
		"empty":            func([]byte) []byte { return nil },
		"garbage":          func([]byte) []byte { return []byte("garbage\n[1,2]\n\n{}\nnull\n[]\n") },
		"zeros at the end": func(data []byte) []byte { return append(data[:len(data)/2], make([]byte, 100)...) },
		"zeros and more": func(data []byte) []byte {
			clear(data[len(data)/2 : len(data)/2+50])
			return data
		},
		"torn": func(data []byte) []byte { return data[:len(data)-9] },
		"a lost line": func(data []byte) []byte {
			l := lines(data)
			return bytes.Join(append(l[:2:2], l[4:]...), nil)
		},
		"no end":        func(data []byte) []byte { return bytes.Join(lines(data)[:4], nil) },
		"other threads": func(data []byte) []byte { return bytes.ReplaceAll(data, []byte(`"one"`), []byte(`"two"`)) },
		"a phantom": func(data []byte) []byte {
			return append(data, "\n[\"missing\",\"one\",9223372036854775000,99999,199999]\n\n[\"other\",\"missing\",1,0,5]\n"...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			one, two := seed(t, dir, "one", 4), seed(t, dir, "two", 4)
			path := filepath.Join(dir, "changes")
			write(t, path, damage(read(t, path)))
			for range 2 { // the second time after a repair
				for _, head := range []segno.Head{one, two} {
					s := open(t, dir, Options{FS: noSync{vfs.OS}})
					line, err := s.Load(t.Context(), head.Head, segno.Window{Entries: true})
					if err != nil || len(line.Commits) != 5 {
						t.Fatal(line, err)
					}
					_, err = s.Load(t.Context(), "missing", segno.Window{})
					wantKind(t, err, segno.KindNotFound)
					closeStore(t, s)
				}
				s := open(t, dir, Options{FS: noSync{vfs.OS}})
				if ids, err := threadsOf(t, s); err != nil || !slices.Equal(ids, []segno.ThreadID{"one", "two"}) {
					t.Fatalf("listed are %q, %v", ids, err)
				}
				closeStore(t, s)
			}
			s := open(t, dir, Options{FS: noSync{vfs.OS}})
			defer closeStore(t, s)
			c := turnCommit(two, 6)
			c.Parent = one.Head
			mustCommit(t, s, c)
		})
	}
}

// TestChangesAreRemoved removes changes while two stores are open. Each store must still find the
// commits of the other.
func TestChangesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	seed(t, dir, "one", 1)
	a, b := open(t, dir, Options{FS: noSync{vfs.OS}}), open(t, dir, Options{FS: noSync{vfs.OS}})
	defer closeStore(t, a)
	defer closeStore(t, b)
	for i := range 3 {
		head := mustCommit(t, a, turnCommit(headOf(t, a, "one"), i+3))
		if _, err := b.Load(t.Context(), head.Head, segno.Window{}); err != nil {
			t.Fatal(err)
		}
		must(t, os.Remove(filepath.Join(dir, "changes")))
		made := mustCommit(t, b, baseCommit(string(rune('a'+i))))
		if _, err := a.Load(t.Context(), made.Head, segno.Window{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamageIsOfOneThread commits to a thread while another thread is damaged.
func TestDamageIsOfOneThread(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir, "one", 2)
	seed(t, dir, "two", 2)
	log := read(t, logOf(dir, "two"))
	log[len(log)/2] ^= 1
	write(t, logOf(dir, "two"), log)
	s := open(t, dir, Options{FS: noSync{vfs.OS}})
	defer closeStore(t, s)
	if _, err := s.Load(t.Context(), head.Head, segno.Window{Entries: true}); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, turnCommit(headOf(t, s, "one"), 7))
}

// TestAnIDOfAnotherThread verifies that a commit with the id of another thread's commit is
// refused.
func TestAnIDOfAnotherThread(t *testing.T) {
	dir := t.TempDir()
	seed(t, dir, "one", 2)
	head := seed(t, dir, "two", 0)
	s := open(t, dir, Options{FS: noSync{vfs.OS}})
	defer closeStore(t, s)
	c := turnCommit(head, 0)
	c.ID = "one turn 1"
	_, err := s.Commit(t.Context(), c)
	wantKind(t, err, segno.KindConflict)
}
