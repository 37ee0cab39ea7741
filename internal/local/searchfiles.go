package local

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/vfs"
)

// searchDir is the directory of the index of search. It is a cache.
const searchDir = "search"

// searchLock is the lock of processes that write the index of search, or remove data that it has.
const searchLock = "search"

// SearchFiles is what the index of search, and the caches beside it, need of the store.
type SearchFiles struct {
	Dir      string
	FS       vfs.FS
	Sealer   spool.Sealer // nil if the store is not sealed
	ReadOnly bool
	// Lock waits only a moment for another process that writes the index. It is nil if the store is read-only.
	Lock func(ctx context.Context) (unlock func(), err error)
	// Name returns the name of the file for a value. In a sealed store the name does not show the value.
	Name func(kind, value string) string
}

// SearchFiles returns the place of the index of search.
func (s *Store) SearchFiles() SearchFiles {
	f := SearchFiles{Dir: filepath.Join(s.place.Store, searchDir), FS: s.place.fs(), ReadOnly: s.readOnly}
	f.Name = func(kind, value string) string { return segno.HashOf([]byte(kind + "\x00" + value)).String()[:32] }
	if z := s.hold.keys.Files; z != nil {
		f.Sealer, f.Name = z, z.Name
	}
	if !s.readOnly {
		f.Lock = func(ctx context.Context) (func(), error) {
			const moment = 2 * time.Second
			ctx, cancel := context.WithTimeout(ctx, moment)
			defer cancel()
			return s.Spool().Lock(ctx, searchLock)
		}
	}
	return f
}

// removeSearchIndex removes the index of search, because it may have text of records that are about to be erased. The caller
// holds the lock, until they are.
func (s *Store) removeSearchIndex() error {
	dir := filepath.Join(s.place.Store, searchDir)
	err := removeTree(s.place.fs(), dir)
	if err == nil {
		err = s.place.fs().SyncDir(s.place.Store)
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "remove index of search", dir, err)
	}
	return nil
}

// Stamp identifies the state of the session's file. Another state has another stamp.
func (f *FoundSession) Stamp() string {
	return fmt.Sprint(stampOf(&f.SessionFile), f.Bytes, f.Modified.UnixNano())
}
