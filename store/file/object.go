package file

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/ledger"
	"github.com/dalsegno/segno/internal/threadlog"
	"github.com/dalsegno/segno/internal/vfs"
)

type objects struct{ s *disk }

// Objects implements [threadlog.Logs].
func (s *disk) Objects() segno.Objects { return objects{s} }

func (s *disk) objectFile(name segno.Hash) string {
	text := hex.EncodeToString(name[:])
	return filepath.Join(s.dir, "objects", text[:2], text)
}

// Get implements [segno.Objects].
func (o objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	const op = "read object"
	if err := o.s.begin(ctx, op); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(o.s.objectFile(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, segno.NewError(segno.KindNotFound, op, name.String(), nil)
	case err == nil && segno.HashOf(data) != name:
		return nil, corrupt(o.s.objectFile(name), errors.New("its bytes do not match its name"))
	}
	return data, threadlog.Fail(op, name.String(), err)
}

// Has implements [segno.Objects].
func (o objects) Has(ctx context.Context, name segno.Hash) (bool, error) {
	const op = "look for object"
	if err := o.s.begin(ctx, op); err != nil {
		return false, err
	}
	found, err := o.s.hasObject(name)
	return found, threadlog.Fail(op, name.String(), err)
}

func (s *disk) hasObject(name segno.Hash) (bool, error) {
	_, err := os.Lstat(s.objectFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Keep implements [segno.Objects].
func (o objects) Keep(ctx context.Context, staged segno.Staged) error {
	const op = "keep objects"
	_, leave, err := o.s.Enter(ctx, op, true)
	if err != nil {
		return err
	}
	defer leave()
	return threadlog.Fail(op, o.s.dir, o.s.KeepObjects(staged))
}

// KeepObjects implements [threadlog.Logs].
func (s *disk) KeepObjects(staged segno.Staged) error {
	for _, pack := range staged.Packs {
		name, ok := packName(pack)
		if !ok {
			return segno.Errorf(segno.KindInvalid, "keep objects", pack, "no batch of this store gives a pack that name")
		}
		err := s.keepObject(name, func(file string) error {
			return errors.Join(s.fs.Rename(s.stagedFile(pack), file), s.fs.SyncDir(filepath.Dir(file)))
		})
		if _, missing := os.Lstat(s.stagedFile(pack)); err == nil && missing == nil {
			err = s.fs.Remove(s.stagedFile(pack)) // another batch has brought the same object
		}
		if err != nil {
			return err
		}
	}
	for _, o := range staged.Objects {
		err := s.keepObject(o.Name, func(file string) error {
			if o.Data == nil {
				return fs.ErrNotExist // the batch found the object in the store
			}
			if segno.HashOf(o.Data) != o.Name {
				return corrupt(file, errors.New("the staged bytes do not match the name"))
			}
			return vfs.Replace(s.fs, file, o.Data, 0o600)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keepObject makes an object durable: with create if it does not exist, otherwise by a sync of its
// name, because the process that created the file may have been killed before it did that.
func (s *disk) keepObject(name segno.Hash, create func(file string) error) error {
	file := s.objectFile(name)
	found, err := s.hasObject(name)
	switch {
	case err != nil:
		return err
	case found:
		return s.fs.SyncDir(filepath.Dir(file))
	}
	if err = vfs.MkdirAllSynced(s.fs, filepath.Dir(file)); err == nil {
		err = create(file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return segno.NewError(segno.KindNotFound, "keep objects", name.String(), nil)
	}
	return err
}

// A pack is a file of one object that no longer fits into a commit. Its name is the object's, a dot
// and a random text.
func packName(pack string) (name segno.Hash, ok bool) {
	text, random, _ := strings.Cut(pack, ".")
	name, err := segno.ParseHash(text)
	return name, err == nil && len(random) == 26 && strings.Trim(random, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// Missing implements [threadlog.Logs].
func (s *disk) Missing(names []segno.Hash, packs []string) (segno.Hash, error) {
	packed := map[segno.Hash]bool{}
	for _, pack := range packs {
		if name, ok := packName(pack); ok {
			packed[name] = true
		}
	}
	for _, name := range names {
		if found, err := s.hasObject(name); err != nil || !found && !packed[name] {
			return name, err
		}
	}
	return segno.Hash{}, nil
}

// Count implements [threadlog.Logs].
func (s *disk) Count(names map[segno.Hash]bool) (n int, bytes int64, err error) {
	for name := range names {
		info, err := os.Stat(s.objectFile(name))
		switch {
		case err == nil:
			n, bytes = n+1, bytes+info.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return n, bytes, err
		}
	}
	return n, bytes, nil
}

// RemoveObjects implements [threadlog.Logs].
func (s *disk) RemoveObjects(names map[segno.Hash]bool) error {
	dirs := map[string]bool{}
	for name := range names {
		err := s.fs.Remove(s.objectFile(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			dirs[filepath.Dir(s.objectFile(name))] = true
		}
	}
	for dir := range dirs {
		if err := s.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func (s *disk) stagedFile(pack string) string { return filepath.Join(s.dir, "staged", pack) }

// Batch implements [segno.Objects].
func (o objects) Batch() segno.Batch { return ledger.NewBatch(&sink{objects: o}) }

// sink is the [ledger.Sink] of a batch.
type sink struct {
	objects
	mu    sync.Mutex
	packs []string
}

func (k *sink) Encode(ctx context.Context, name segno.Hash, data []byte) (segno.Object, error) {
	err := k.s.begin(ctx, "put object")
	return segno.Object{Name: name, Size: int64(len(data)), Data: append([]byte{}, data...)}, err
}

func (k *sink) Spill(ctx context.Context, all []segno.Object) ([]segno.Object, error) {
	const op = "write packs"
	dir := k.s.stagedFile("")
	err := k.s.create()
	if err == nil {
		err = vfs.MkdirAllSynced(k.s.fs, dir)
	}
	for _, o := range all {
		if err == nil {
			err = k.s.begin(ctx, op)
		}
		if err != nil {
			return nil, threadlog.Fail(op, dir, err)
		}
		pack := o.Name.String() + "." + rand.Text()
		k.mu.Lock()
		k.packs = append(k.packs, pack)
		k.mu.Unlock()
		err = vfs.WriteSynced(k.s.fs, k.s.stagedFile(pack), o.Data, 0o600)
	}
	return nil, threadlog.Fail(op, dir, err)
}

func (k *sink) Finish(ctx context.Context) ([]string, error) {
	const op = "stage objects"
	err := k.s.begin(ctx, op)
	if err == nil && len(k.packs) > 0 {
		err = k.s.fs.SyncDir(k.s.stagedFile(""))
	}
	return k.packs, threadlog.Fail(op, k.s.dir, err)
}

func (k *sink) Drop() (err error) {
	for _, pack := range k.packs {
		if e := k.s.fs.Remove(k.s.stagedFile(pack)); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return threadlog.Fail("drop batch", k.s.dir, err)
}
