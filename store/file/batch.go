package file

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
)

// mostInline is how many bytes a batch keeps in memory and leaves in Objects. The
// rest are files of a pack: a directory in which each is named by its hash.
const mostInline = 1 << 20

// batch is a [segno.Batch].
type batch struct {
	s *Store

	mu     sync.Mutex
	ended  bool
	seen   map[segno.Hash]bool
	out    []segno.Object
	inline int
	pack   string // "" until there is one
}

// Batch implements [segno.Objects].
func (o objects) Batch() segno.Batch { return &batch{s: o.s, seen: map[segno.Hash]bool{}} }

func errEnded(op string) error { return invalid(op, "", "the batch has ended") }

// Put implements [segno.Batch].
func (b *batch) Put(ctx context.Context, data []byte) (segno.Hash, error) {
	const op = "put object"
	name := segno.HashOf(data)
	end, err := b.s.begin(ctx, op)
	if err != nil {
		return name, err
	}
	defer end()
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok, err := b.has(op, name); ok || err != nil {
		return name, err
	}
	object := segno.Object{Name: name, Size: int64(len(data))}
	if b.inline+len(data) <= mostInline {
		b.inline += len(data)
		object.Data = append([]byte{}, data...)
	} else if err := b.spill(name, data); err != nil {
		return name, fail(op, name.String(), err)
	}
	b.seen[name] = true
	b.out = append(b.out, object)
	return name, nil
}

// Has implements [segno.Batch].
func (b *batch) Has(ctx context.Context, name segno.Hash) (bool, error) {
	const op = "look for object"
	end, err := b.s.begin(ctx, op)
	if err != nil {
		return false, err
	}
	defer end()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.has(op, name)
}

// has notes what it finds in the store: the commit will look for it again.
func (b *batch) has(op string, name segno.Hash) (bool, error) {
	if b.ended {
		return false, errEnded(op)
	}
	if b.seen[name] {
		return true, nil
	}
	ok, err := b.s.hasObject(name)
	if ok {
		b.seen[name] = true
		b.out = append(b.out, segno.Object{Name: name})
	}
	return ok, fail(op, name.String(), err)
}

// spill writes an object into the batch's pack.
func (b *batch) spill(name segno.Hash, data []byte) error {
	if b.pack == "" {
		pack := strings.ToLower(rand.Text())
		if err := b.s.make(); err != nil {
			return err
		}
		if err := b.s.mkdir(b.s.stagedDir("")); err != nil {
			return err
		}
		if err := b.s.fs.Mkdir(b.s.stagedDir(pack), 0o700); err != nil {
			return err
		}
		b.pack = pack
	}
	path := filepath.Join(b.s.stagedDir(b.pack), name.String())
	err := b.s.writeSynced(path, data)
	if err != nil {
		_ = b.s.fs.Remove(path) // so that the same object may be put again
	}
	return err
}

// Stage implements [segno.Batch].
func (b *batch) Stage(ctx context.Context) (segno.Staged, error) {
	const op = "stage objects"
	end, err := b.s.begin(ctx, op)
	if err != nil {
		return segno.Staged{}, err
	}
	defer end()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return segno.Staged{}, errEnded(op)
	}
	staged := segno.Staged{Objects: b.out}
	if b.pack != "" {
		for _, dir := range []string{b.s.stagedDir(b.pack), b.s.stagedDir("")} {
			if err := b.s.fs.SyncDir(dir); err != nil {
				return segno.Staged{}, fail(op, dir, err)
			}
		}
		staged.Packs = []string{b.pack}
	}
	b.ended = true
	return staged, nil
}

// Close implements [segno.Batch].
func (b *batch) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return nil
	}
	b.ended = true
	if b.pack == "" {
		return nil
	}
	return fail("drop batch", "", b.s.dropPack(b.pack))
}

// isPack reports whether a batch may have given a pack this name.
func isPack(name string) bool {
	return len(name) == 26 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// packed are the names of a pack's objects; none if it was taken already.
func (s *Store) packed(pack string) (names []segno.Hash, err error) {
	des, err := os.ReadDir(s.stagedDir(pack))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, de := range des {
		if h, err := segno.ParseHash(de.Name()); err == nil && !h.IsZero() {
			names = append(names, h)
		}
	}
	return names, nil
}

// adoptPack moves a pack's objects to where they stay, and returns the directories
// to sync. One that was taken by another call meanwhile is there already.
func (s *Store) adoptPack(pack string) (dirs []string, err error) {
	names, err := s.packed(pack)
	if err != nil {
		return nil, err
	}
	for _, h := range names {
		path := s.objectPath(h)
		if err := s.mkdir(filepath.Dir(path)); err != nil {
			return nil, err
		}
		if err := s.fs.Rename(filepath.Join(s.stagedDir(pack), h.String()), path); err != nil {
			if ok, lookErr := s.hasObject(h); !ok || lookErr != nil || !errors.Is(err, fs.ErrNotExist) {
				return nil, errors.Join(err, lookErr)
			}
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	if err := s.fs.Remove(s.stagedDir(pack)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return dirs, nil
}

// dropPack removes a pack that nothing will take.
func (s *Store) dropPack(pack string) error {
	names, err := s.packed(pack)
	for _, h := range names {
		err = errors.Join(err, s.fs.Remove(filepath.Join(s.stagedDir(pack), h.String())))
	}
	return errors.Join(err, s.fs.Remove(s.stagedDir(pack)))
}
