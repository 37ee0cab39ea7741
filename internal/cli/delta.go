package cli

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/dalsegno/segno/archive"
)

// openDelta opens an archive and the base archives that the flags name. The bases stay open until the process ends. An
// archive that needs no base ignores them, so a script can always name them.
func (a *app) openDelta(path string, flags archiveFlags) (*archive.Reader, error) {
	r, err := a.openArchive(path, flags.identity)
	if err != nil {
		return nil, err
	}
	if r.Delta() == nil {
		return r, nil
	}
	var bases []*archive.Reader
	for _, name := range flags.bases {
		path, _, err := a.archivePath(name)
		if err != nil {
			return nil, err
		}
		base, err := a.openArchive(path, flags.identity)
		if err != nil {
			return nil, err
		}
		bases = append(bases, base)
	}
	return r, useBases(r, bases)
}

// useBases gives a delta its base: the archive with the digest that the delta names, else the first
// one. The base first gets its own base in the same way.
func useBases(r *archive.Reader, bases []*archive.Reader) error {
	if r.Delta() == nil || len(bases) == 0 {
		return nil
	}
	i := max(0, slices.IndexFunc(bases, func(b *archive.Reader) bool { return b.Manifest().Digest == r.Delta().Base }))
	base := bases[i]
	if err := useBases(base, slices.Delete(slices.Clone(bases), i, i+1)); err != nil {
		return err
	}
	return r.UseBase(base)
}

// since returns the archive that a delta is based on. The flag names its file or its checkpoint.
func (a *app) since(ctx context.Context, d *openWorkspace, flags packFlags, o archive.WriteOptions) (base *archive.Base, err error) {
	if flags.since == "" {
		return nil, nil
	}
	if isArchiveName(flags.since) {
		path, _, err := a.archivePath(flags.since)
		if err != nil {
			return nil, err
		}
		r, err := a.openArchive(path, "")
		if err != nil {
			return nil, err
		}
		return &archive.Base{Manifest: r.Manifest(), Name: filepath.Base(path)}, r.Close()
	}
	p, err := a.packedCheckpoint(ctx, d, flags.since, flags)
	defer func() { err = errors.Join(err, p.cleanup()) }()
	if err != nil {
		return nil, err
	}
	m, err := archive.Describe(ctx, p.state, o)
	if err != nil {
		return nil, err
	}
	return &archive.Base{Manifest: m, Name: p.name}, nil
}

// deltaContents counts the contents that a delta leaves to its base.
type deltaContents struct {
	Base    string `json:"base"`
	Name    string `json:"name,omitempty"`
	Files   int    `json:"files"`   // files that begin with the content of a file of the base
	Bytes   int64  `json:"bytes"`   // of these contents
	Missing int    `json:"missing"` // files that cannot be read without another archive
}

// deltaOf describes a delta. It returns nil for an archive that needs no base.
func deltaOf(r *archive.Reader) *deltaContents {
	d := r.Delta()
	if d == nil {
		return nil
	}
	c := &deltaContents{Base: d.Base, Name: d.Name, Files: len(d.Files)}
	for _, f := range d.Files {
		c.Bytes += f.Size
	}
	c.Missing, _ = r.Missing()
	return c
}

// base names the archive that a delta is based on.
func (c *deltaContents) base() string {
	if c.Name == "" {
		return inline(c.Base)
	}
	return inline(c.Name) + ", " + inline(c.Base)
}
