package file

import (
	"bytes"
	"os"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// complaints is what Check says.
func complaints(t *testing.T, s *Store) (all []error) {
	t.Helper()
	done, err := s.Check(t.Context(), segno.CheckPolicy{}, func(err error) bool {
		all = append(all, err)
		return true
	})
	must(t, err)
	if done.Damaged != len(all) {
		t.Errorf("%d damaged and %d reports", done.Damaged, len(all))
	}
	for _, err := range all {
		wantKind(t, err, segno.KindCorrupt)
	}
	return all
}

// TestCheck spoils one thing at a time under a store that is open: Check finds it.
func TestCheck(t *testing.T) {
	flip := func(t *testing.T, name string) {
		data := bytes.Clone(read(t, name))
		data[len(data)/2] ^= 1
		write(t, name, data)
	}
	for name, spoil := range map[string]func(t *testing.T, s *Store){
		"nothing":             func(*testing.T, *Store) {},
		"a log":               func(t *testing.T, s *Store) { flip(t, logOf(s.dir, "fork")) },
		"a missing log":       func(t *testing.T, s *Store) { must(t, os.Remove(logOf(s.dir, "fork"))) },
		"an object":           func(t *testing.T, s *Store) { flip(t, s.objectPath(segno.HashOf([]byte(fixtureText)))) },
		"a missing object":    func(t *testing.T, s *Store) { must(t, os.Remove(s.objectPath(segno.HashOf([]byte(fixtureText))))) },
		"a workspace":         func(t *testing.T, s *Store) { flip(t, s.workspacePath("w/1")) },
		"a thread taken away": func(t *testing.T, s *Store) { must(t, os.RemoveAll(s.thread("a:b/C").dir)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFixture(t, dir)
			s := open(t, dir, Options{FS: quick{vfs.OS}})
			defer shut(t, s)
			spoil(t, s)
			got := complaints(t, s)
			if (len(got) > 0) != (name != "nothing") {
				t.Fatalf("it says %v", got)
			}
			seen := 0
			if _, err := s.Check(t.Context(), segno.CheckPolicy{}, func(error) bool { seen++; return false }); err != nil || seen != min(len(got), 1) {
				t.Fatalf("%d reports, %v", seen, err)
			}
		})
	}
}
