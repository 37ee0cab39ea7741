package file

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/dalsegno/segno"
)

type objects struct{ s *Store }

// Objects implements [segno.Store].
func (s *Store) Objects() segno.Objects { return objects{s} }

func (s *Store) objectPath(name segno.Hash) string {
	text := name.String()
	return filepath.Join(s.dir, "objects", text[:2], text)
}

func (s *Store) stagedDir(pack string) string { return filepath.Join(s.dir, "staged", pack) }

// Get implements [segno.Objects].
func (o objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	const op = "read object"
	end, err := o.s.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer end()
	if name.IsZero() {
		return nil, notFound(op, "")
	}
	data, err := os.ReadFile(o.s.objectPath(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, notFound(op, name.String())
	case err != nil:
		return nil, fail(op, name.String(), err)
	case segno.HashOf(data) != name:
		return nil, corrupt(op, name.String(), errors.New("its bytes are not what it is named for"))
	}
	return data, nil
}

// Has implements [segno.Objects].
func (o objects) Has(ctx context.Context, name segno.Hash) (bool, error) {
	const op = "look for object"
	end, err := o.s.begin(ctx, op)
	if err != nil {
		return false, err
	}
	defer end()
	ok, err := o.s.hasObject(name)
	return ok, fail(op, name.String(), err)
}

func (s *Store) hasObject(name segno.Hash) (bool, error) {
	if name.IsZero() {
		return false, nil
	}
	_, err := os.Lstat(s.objectPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Keep implements [segno.Objects].
func (o objects) Keep(ctx context.Context, staged segno.Staged) error {
	const op = "keep objects"
	end, err := o.s.begin(ctx, op)
	if err != nil {
		return err
	}
	defer end()
	if staged.IsZero() {
		return nil
	}
	if err := o.s.make(); err != nil {
		return fail(op, o.s.dir, err)
	}
	release, err := o.s.lockObjects(ctx, op, false)
	if err != nil {
		return err
	}
	defer release()
	if _, err := o.s.admitStaged(op, staged); err != nil {
		return err
	}
	return o.s.adopt(op, staged)
}

// admitObjects asks for every object that c brings or needs.
func (s *Store) admitObjects(op string, c *segno.Commit) error {
	brought, err := s.admitStaged(op, c.Staged)
	if err != nil {
		return err
	}
	for _, h := range c.Refs() {
		if brought[h] {
			continue
		}
		ok, err := s.hasObject(h)
		if err != nil {
			return fail(op, h.String(), err)
		}
		if !ok {
			return segno.Errorf(segno.KindNotFound, op, string(c.ID), "object %s does not exist", h)
		}
	}
	return nil
}

// admitStaged returns what is brought. What the batch found in the store must
// still be there, or in a pack beside it.
func (s *Store) admitStaged(op string, staged segno.Staged) (map[segno.Hash]bool, error) {
	brought := map[segno.Hash]bool{}
	for _, pack := range staged.Packs {
		if !isPack(pack) {
			return nil, invalid(op, pack, "it is no name of a pack")
		}
		names, err := s.packed(pack)
		if err != nil {
			return nil, fail(op, "pack "+pack, err)
		}
		for _, h := range names {
			brought[h] = true
		}
	}
	for _, o := range staged.Objects {
		if o.Data != nil {
			if segno.HashOf(o.Data) != o.Name {
				return nil, corrupt(op, o.Name.String(), errors.New("its bytes are not what it is named for"))
			}
			brought[o.Name] = true
		}
	}
	for _, o := range staged.Objects {
		if brought[o.Name] {
			continue
		}
		ok, err := s.hasObject(o.Name)
		if err != nil {
			return nil, fail(op, o.Name.String(), err)
		}
		if !ok {
			return nil, notFound(op, o.Name.String())
		}
		brought[o.Name] = true
	}
	return brought, nil
}

// adopt makes staged objects the store's, durably. It does nothing to those the
// store has but make sure of that.
func (s *Store) adopt(op string, staged segno.Staged) error {
	var dirs []string
	for _, pack := range staged.Packs {
		moved, err := s.adoptPack(pack)
		if err != nil {
			return fail(op, "pack "+pack, err)
		}
		dirs = append(dirs, moved...)
	}
	for _, o := range staged.Objects {
		path := s.objectPath(o.Name)
		ok, err := s.hasObject(o.Name)
		if err == nil && !ok && o.Data != nil {
			err = s.writeObject(path, o.Data)
		}
		if err != nil {
			return fail(op, o.Name.String(), err)
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		if err := s.fs.SyncDir(dir); err != nil {
			return fail(op, dir, err)
		}
	}
	return nil
}

// writeObject writes an object under its name, which is durable once its
// directory is synced.
func (s *Store) writeObject(path string, data []byte) error {
	if err := s.mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(path), ".new-"+rand.Text())
	err := s.writeSynced(temp, data)
	if err == nil {
		err = s.fs.Rename(temp, path)
	}
	if err != nil {
		_ = s.fs.Remove(temp) // a stray at worst; the first error is the one to tell
	}
	return err
}
