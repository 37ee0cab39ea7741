package file

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/storetest"
)

func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	clock := storetest.NewClock()
	o := Options{Clock: clock.Now}
	storetest.Test(t, func(t *testing.T) segno.Store { return open(t, filepath.Join(t.TempDir(), "store"), o) }, storetest.Options{
		Clock: clock,
		Reopen: func(t *testing.T, s segno.Store) segno.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, s.(*Store).dir, o)
		},
		Another: func(t *testing.T, s segno.Store) segno.Store { return open(t, s.(*Store).dir, o) },
		Size:    func(t *testing.T, s segno.Store) int64 { return sizeOf(t, s.(*Store).dir) },
	})
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
