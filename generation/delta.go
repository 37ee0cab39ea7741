package generation

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/pack"
)

// openArchive opens an archive. If it is a delta, openArchive also opens the archive beside it that has the rest.
func openArchive(path string) (*savedRun, error) {
	r, err := archive.Open(path)
	if err != nil {
		return nil, err
	}
	s := &savedRun{Reader: r, path: path}
	if r.Delta() != nil {
		err = s.openBase()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openBase opens the base of a delta. A runner makes deltas of full archives only.
func (s *savedRun) openBase() (err error) {
	path := s.BaseBeside(s.path)
	if s.base, err = archive.Open(path); err == nil && s.base.Manifest().Digest == s.Delta().Base {
		err = s.UseBase(s.base)
	}
	if files, _ := s.Missing(); files > 0 && err == nil || segno.KindOf(err) == segno.KindNotFound {
		err = segno.Errorf(segno.KindNotFound, "open archive", s.path, "it is a delta of %s, which is not beside it", segno.QuotePath(s.Delta().Name)).
			WithHint("copy that archive into the same directory")
	}
	return err
}

// rebuild replaces a delta by the full archive with the same digest. The store has the contents if this machine made the
// checkpoint.
func (r *Runner) rebuild(ctx context.Context, path string) (err error) {
	reader, err := archive.Open(path)
	if err != nil {
		return err
	}
	defer reader.Close()
	s, m := savedRun{Reader: reader}, reader.Manifest()
	if err := s.readCaller(); err != nil {
		return err
	}
	if reader.Delta() == nil || s.caller.Checkpoint == "" || !r.Ours(m.Digest) {
		return segno.Errorf(segno.KindNotFound, "rebuild archive", path, "the store does not have its checkpoint")
	}
	p := &pack.Packer{Store: r.Store, Temp: r.Temp, FS: r.FS}
	state, cleanup, err := p.State(ctx, s.caller.Checkpoint, pack.Options{})
	defer func() { err = errors.Join(err, cleanup()) }()
	if err != nil {
		return err
	}
	state.Cut, state.Parent, state.Caller = m.Cut, m.Parent, reader.Metadata().Caller
	if described, err := archive.Describe(ctx, state, r.writeOptions(nil)); err != nil || described.Digest != m.Digest {
		return errors.Join(err, segno.Errorf(segno.KindCorrupt, "rebuild archive", path, "the store has another state"))
	}
	_, err = r.replaceArchive(ctx, path, state, nil)
	return err
}

// Close closes the archive and its base.
func (s *savedRun) Close() error {
	err := s.Reader.Close()
	if s.base != nil {
		err = errors.Join(err, s.base.Close())
	}
	return err
}

// since returns the archive of which the next one is a delta, or nil if the next one must be full. The last archive of
// an attempt is full, because users move it elsewhere. So is the first one, and one after a delta that was large.
func (a *attempt) since(name string, isLast bool) *archive.Base {
	if a.base != nil && a.base.Name == name {
		a.base = nil // the next archive replaces it
	}
	if isLast || a.base == nil {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(a.dir, checkpointsDir, a.base.Name)); err != nil {
		return nil // the user removed it
	}
	return a.base
}

// wrote records an archive and its base.
func (a *attempt) wrote(path string, m *archive.Manifest, since *archive.Base) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if since == nil {
		a.base, a.baseSize = &archive.Base{Manifest: m, Name: filepath.Base(path)}, info.Size()
		a.bases[path] = ""
		return nil
	}
	a.bases[path] = filepath.Join(filepath.Dir(path), since.Name)
	if info.Size() > a.baseSize/2 {
		a.base = nil
	}
	return nil
}

// baseOf returns the path of the archive of which another one is a delta, or "".
func (r *Runner) baseOf(path string) string {
	base, known := r.bases[path]
	if known {
		return base
	}
	if reader, err := archive.Open(path); err == nil { // otherwise nothing can be loaded from it
		base = reader.BaseBeside(path)
		_ = reader.Close() // it was only read
	}
	r.bases[path] = base
	return base
}
