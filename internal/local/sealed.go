package local

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/sealing"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/store/sqlite"
)

// lockWait is how long a command waits for the lock of the store's form.
const lockWait = 5 * time.Second

// hold is a shared lock on the store's form, with the keys of a sealed store.
type hold struct {
	lock sealing.Lock
	file *sealing.File // nil if the store is not sealed
	keys sealing.Keys  // zero if the store is not sealed
}

// Sealed is what the verbs store, status and doctor report about the key of a sealed store.
type Sealed struct {
	KeyFile string `json:"key_file"`
	Exposed bool   `json:"exposed,omitempty"` // other users may read the key file

	KeyFileBytes []byte `json:"key_file_bytes,omitempty"`
}

// Sealed describes how the store is sealed. It returns nil if the store is not sealed. It does not
// read the key.
func (p Place) Sealed() (*Sealed, error) {
	f, err := sealing.Read(p.Store)
	if err != nil || f == nil {
		return nil, err
	}
	return p.describe(f), nil
}

func (p Place) describe(f *sealing.File) *Sealed {
	name := cmp.Or(p.Identity, f.IdentityPath())
	return &Sealed{KeyFile: name, Exposed: sealing.IsExposed(name), KeyFileBytes: segno.PathBytes(name)}
}

// hold takes the lock in shared mode and reads the keys. It first completes or undoes an interrupted conversion.
func (p Place) hold(ctx context.Context, readOnly bool) (*hold, error) {
	wait := cmp.Or(p.StoreWait, lockWait)
	for completed := false; ; completed = true {
		lock, err := sealing.Share(ctx, p.Store, wait)
		if err != nil {
			return nil, err
		}
		h := &hold{lock: lock}
		h.file, err = sealing.Read(p.Store)
		if err == nil && (completed || !p.hasConversion(h.file)) {
			err = h.unlock(p)
			if err == nil {
				return h, nil
			}
		}
		err = errors.Join(err, lock.Release())
		if err == nil {
			err = p.recover(ctx, readOnly, wait)
		}
		if err != nil {
			return nil, err
		}
	}
}

// unlock reads the keys of a sealed store.
func (h *hold) unlock(p Place) error {
	if h.file == nil {
		return nil
	}
	if h.file.Change != "" {
		return segno.Errorf(segno.KindBusy, "open store", p.Store, "a conversion of the store is not complete").WithHint("try again")
	}
	keys, err := h.file.Unlock(p.Store, p.Identity)
	if err == nil {
		h.keys = *keys
	}
	return err
}

// sealer implements the function of [spool.NewSealed] as long as h is held.
func (h *hold) sealer() (spool.Sealer, error) {
	if h.keys.Files == nil {
		return nil, nil
	}
	return h.keys.Files, nil
}

// Spool returns the store's spool. It needs no open store. Each operation of the spool checks whether the store is
// sealed.
func (p Place) Spool() *spool.Dir {
	x := &lateSealer{place: p}
	return spool.NewSealed(p.Store, p.fs(), x.sealer)
}

// lateSealer reads the keys of a store that is not open. It reads them again if seal.json changed.
type lateSealer struct {
	place Place

	mu   sync.Mutex
	seen os.FileInfo // seal.json when the keys were read
	keys *sealing.Keys
}

func (x *lateSealer) sealer() (spool.Sealer, error) {
	fi, err := os.Lstat(filepath.Join(x.place.Store, spool.SealFile))
	if err != nil {
		return nil, nil // not sealed; after any other error, the directory cannot be used anyway
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.seen != nil && os.SameFile(x.seen, fi) && x.seen.ModTime().Equal(fi.ModTime()) {
		return x.keys.Files, nil
	}
	f, err := sealing.Read(x.place.Store)
	if err != nil || f == nil {
		return nil, err
	}
	h := &hold{file: f}
	if err := h.unlock(x.place); err != nil {
		return nil, err
	}
	x.seen, x.keys = fi, &h.keys
	return x.keys.Files, nil
}

// Spool returns the store's spool, which uses the keys of the open store.
func (s *Store) Spool() *spool.Dir {
	return spool.NewSealed(s.place.Store, s.place.fs(), s.hold.sealer)
}

// Sealed returns how the store is sealed, or nil.
func (s *Store) Sealed() *Sealed {
	if s.hold.file == nil {
		return nil
	}
	return s.place.describe(s.hold.file)
}

// SealFile returns the content to write to a file in the store's directory: plain itself, or its sealed form if the
// store is sealed. The sealed form can be opened only under the same file name.
func (s *Store) SealFile(name string, plain []byte) []byte {
	return s.hold.keys.Files.Seal(plain, spool.Place(name)...)
}

// OpenFile is the inverse of SealFile.
func (s *Store) OpenFile(name string, data []byte) ([]byte, error) {
	return s.hold.keys.Files.Open(data, spool.Place(name)...)
}

// Close closes the store and releases its share of the lock on the form. The store must not be used after that.
func (s *Store) Close() error {
	return errors.Join(s.watches.close(), s.Store.Close(), s.hold.lock.Release())
}

// openDatabase opens the database with a key, which is nil for a store that is not sealed.
func (p Place) openDatabase(ctx context.Context, key []byte, readOnly bool) (*sqlite.Store, error) {
	db, err := sqlite.Open(ctx, filepath.Join(p.Store, DatabaseFile), p.databaseOptions(p.Store, key, readOnly))
	if err != nil && readOnly && segno.KindOf(err) == segno.KindIO {
		err = segno.NewError(segno.KindIO, "open store", p.Store, err).
			WithHint("the store is read-only and was not closed cleanly; copy it to a writable directory and use --store")
	}
	if segno.KindOf(err) == segno.KindRefused {
		switch {
		case key == nil:
			err = segno.Errorf(segno.KindRefused, "open store", p.Store, "the store is sealed, and its %s is missing", spool.SealFile).
				WithHint("put the file back from a backup; it has the store's key")
		default:
			err = segno.Errorf(segno.KindRefused, "open store", p.Store, "the database does not belong to %s: %w", spool.SealFile, err).
				WithHint("put back the database and the file from the same backup")
		}
	}
	return db, err
}

// fullOptions are the options of a database on a full disk.
func (p Place) fullOptions(key []byte) sqlite.Options {
	o := p.databaseOptions(p.Store, key, true)
	o.Full = true
	return o
}

func (p Place) databaseOptions(dir string, key []byte, readOnly bool) sqlite.Options {
	return sqlite.Options{Packs: filepath.Join(dir, packsDir), BusyTimeout: p.StoreWait, Clock: p.Now, FS: p.FS, ReadOnly: readOnly, Key: key}
}
