package local

import (
	"context"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/workspace"
)

// BisectsDir returns the directory with the state of bisects.
func (p Place) BisectsDir() string { return filepath.Join(p.Store, "bisects") }

// FileSystem returns the file system through which the store writes.
func (p Place) FileSystem() vfs.FS { return p.fs() }

// Scratch makes a scratch copy of a workspace, as [workspace.Dir.Scratch] describes, or opens an existing one. The copy
// is beside the workspace, so that relative paths out of it, as in go.work, lead to the same files. If segno records that
// directory too, or if this process may not write there, the copy is in the store.
func (s *Store) Scratch(ctx context.Context, rec segno.WorkspaceRecord, existing string, o workspace.ScratchOptions) (*workspace.Scratch, error) {
	if err := workspace.CheckOwner(rec.Path, s.place.isTrusted); err != nil {
		return nil, err
	}
	dir, err := s.openWorkspace(rec, Progress{}, nil)
	if err != nil {
		return nil, err
	}
	if existing != "" {
		return dir.OpenScratch(existing, o.Index(existing))
	}
	in := filepath.Dir(dir.Root())
	_, err = s.Find(ctx, in)
	if err != nil && segno.KindOf(err) != segno.KindNotFound {
		return nil, err
	}
	if err == nil || unix.Access(in, unix.W_OK|unix.X_OK) != nil {
		in = s.place.BisectsDir()
	}
	unlock, err := s.Spool().Lock(ctx, rec.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	o.In = in
	return dir.Scratch(ctx, o)
}
