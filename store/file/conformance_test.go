package file

import (
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/storetest"
)

func TestStore(t *testing.T) {
	clock := storetest.NewClock()
	o := Options{Clock: clock.Now, FS: quick{vfs.OS}}
	storetest.Test(t, func(t *testing.T) segno.Store { return open(t, filepath.Join(t.TempDir(), "store"), o) }, storetest.Options{
		Clock: clock,
		Reopen: func(t *testing.T, s segno.Store) segno.Store {
			shut(t, s.(*Store))
			return open(t, s.(*Store).dir, o)
		},
		Another: func(t *testing.T, s segno.Store) segno.Store { return open(t, s.(*Store).dir, o) },
		Size:    func(t *testing.T, s segno.Store) int64 { return sizeOf(t, s.(*Store).dir) },
	})
}
