package file

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/internal/threadlog"
)

func (s *disk) objectFile(name segno.Hash) string {
	text := hex.EncodeToString(name[:])
	return filepath.Join(s.dir, "objects", text[:2], text)
}

// ReadObject implements [threadlog.Logs].
func (s *disk) ReadObject(name segno.Hash) ([]byte, error) { return os.ReadFile(s.objectFile(name)) }

func (s *disk) hasObject(name segno.Hash) (bool, error) {
	_, err := os.Lstat(s.objectFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// KeepObjects implements [threadlog.Logs].
func (s *disk) KeepObjects(staged segno.Staged) error {
	for _, pack := range staged.Packs {
		name, ok := packName(pack)
		if !ok {
			return segno.Errorf(segno.KindInvalid, "keep objects", pack, "invalid pack name")
		}
		err := s.keepObject(name, func(file string) error {
			return errors.Join(s.fs.Rename(s.stagedFile(pack), file), s.fs.SyncDir(filepath.Dir(file)))
		})
		if _, missing := os.Lstat(s.stagedFile(pack)); err == nil && missing == nil {
			err = s.fs.Remove(s.stagedFile(pack)) // another batch has already written this object
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

// keepObject makes an object durable. If the object does not exist, it calls create. Otherwise it
// syncs the object's name, because the process that created the file may have been killed before it
// did that.
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

// packName returns the object of a pack. A pack is a file with one object that was too large for a
// commit. Its name is the object's name, a dot and random text.
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

// RemoveObjects implements [threadlog.Logs].
func (s *disk) RemoveObjects(names []segno.Hash, dryRun bool) (n int, bytes int64, err error) {
	dirs := map[string]bool{}
	for _, name := range names {
		file := s.objectFile(name)
		info, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !dryRun {
			err = s.fs.Remove(file)
			dirs[filepath.Dir(file)] = true
		}
		if err != nil {
			return n, bytes, err
		}
		n, bytes = n+1, bytes+info.Size()
	}
	for dir := range dirs {
		if err := s.fs.SyncDir(dir); err != nil {
			return n, bytes, err
		}
	}
	return n, bytes, nil
}

func (s *disk) stagedFile(pack string) string { return filepath.Join(s.dir, "staged", pack) }

// packs holds the staged files of one batch: [threadlog.Packs].
type packs struct {
	*disk
	mu    sync.Mutex
	names []string
}

// NewPacks implements [threadlog.Logs].
func (s *disk) NewPacks() threadlog.Packs { return &packs{disk: s} }

func (p *packs) Spill(all []segno.Object) ([]segno.Object, error) {
	err := p.create()
	if err == nil {
		err = vfs.MkdirAllSynced(p.fs, p.stagedFile(""))
	}
	for _, o := range all {
		if err != nil {
			break
		}
		pack := o.Name.String() + "." + rand.Text()
		p.mu.Lock()
		p.names = append(p.names, pack)
		p.mu.Unlock()
		err = vfs.WriteSynced(p.fs, p.stagedFile(pack), o.Data, 0o600)
	}
	return nil, err
}

func (p *packs) Finish() ([]string, error) {
	if len(p.names) == 0 {
		return nil, nil
	}
	return p.names, p.fs.SyncDir(p.stagedFile(""))
}

func (p *packs) Drop() (err error) {
	for _, pack := range p.names {
		if e := p.fs.Remove(p.stagedFile(pack)); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
