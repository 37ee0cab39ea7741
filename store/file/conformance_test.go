package file

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/storetest"
)

func TestStore(t *testing.T) {
	clock := storetest.NewClock()
	disk := &faultfs.Limited{FS: noSync{vfs.OS}}
	o := Options{Clock: clock.Now, FS: disk}
	storetest.Test(t, func(t *testing.T) segno.Store { return open(t, filepath.Join(t.TempDir(), "store"), o) }, storetest.Options{
		Clock: clock,
		Reopen: func(t *testing.T, s segno.Store) segno.Store {
			closeStore(t, s.(*Store))
			return open(t, s.(*Store).Path(), o)
		},
		Another: func(t *testing.T, s segno.Store) segno.Store { return open(t, s.(*Store).Path(), o) },
		Full: func(*testing.T, segno.Store) func() {
			disk.Full.Store(true)
			return func() { disk.Full.Store(false) }
		},
		Raw:  func(t *testing.T, s segno.Store) []byte { return rawFiles(t, s.(*Store).Path()) },
		Size: func(t *testing.T, s segno.Store) int64 { return sizeOf(t, s.(*Store).Path()) },
	})
}

// rawFiles returns the content of all files below a directory.
func rawFiles(t *testing.T, dir string) (raw []byte) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		raw = append(raw, data...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
