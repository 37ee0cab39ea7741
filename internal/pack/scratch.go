package pack

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// scratchObjects keeps objects as files of a temporary directory while a session is copied. It also
// implements its own batch. Nothing in it is durable.
type scratchObjects struct {
	fsys vfs.FS
	dir  string
}

func (s *scratchObjects) path(name segno.Hash) string { return filepath.Join(s.dir, name.String()) }

func (s *scratchObjects) Put(_ context.Context, data []byte) (segno.Hash, error) {
	name := segno.Hash(sha256.Sum256(data))
	f, err := s.fsys.OpenFile(s.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return name, nil
	}
	if err != nil {
		return name, err
	}
	_, err = f.Write(data)
	return name, errors.Join(err, f.Close())
}

func (s *scratchObjects) Get(_ context.Context, name segno.Hash) ([]byte, error) {
	data, err := os.ReadFile(s.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, segno.NewError(segno.KindNotFound, "read object", name.String(), nil)
	case err != nil:
		return nil, segno.NewError(segno.KindIO, "read object", name.String(), err)
	case sha256.Sum256(data) != name:
		return nil, segno.NewError(segno.KindCorrupt, "read object", name.String(), nil)
	}
	return data, nil
}

func (s *scratchObjects) Has(_ context.Context, name segno.Hash) (bool, error) {
	_, err := os.Lstat(s.path(name))
	return err == nil, nil
}

// Batch returns s.
func (s *scratchObjects) Batch() segno.Batch { return s }

func (s *scratchObjects) Keep(context.Context, segno.Staged) error { return nil }

// Stage does nothing: each object can be read at once.
func (s *scratchObjects) Stage(context.Context) (segno.Staged, error) { return segno.Staged{}, nil }

func (s *scratchObjects) Close() error { return nil }
