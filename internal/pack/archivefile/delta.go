package archivefile

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/cli"
)

// OpenDelta opens an archive and the base archives that the flags name. If they name none, it takes the one beside the
// archive that has the name and the digest of the base. The bases stay open until the process ends. An archive that needs
// no base ignores them, so a script can always name them.
func OpenDelta(a *cli.App, path string, flags ArchiveFlags) (*archive.Reader, error) {
	r, err := OpenArchive(a, path, flags.Identity)
	if err != nil {
		return nil, err
	}
	if r.Delta() == nil {
		return r, nil
	}
	var bases []*archive.Reader
	if beside := r.BaseBeside(path); beside != "" && len(flags.bases) == 0 {
		// Without it, the error of a file that cannot be read names --base.
		if base, err := OpenArchive(a, beside, flags.Identity); err == nil && base.Manifest().Digest == r.Delta().Base {
			bases = append(bases, base)
		}
	}
	for _, name := range flags.bases {
		path, _, err := ArchivePath(a, name)
		if err != nil {
			return nil, err
		}
		base, err := OpenArchive(a, path, flags.Identity)
		if err != nil {
			return nil, err
		}
		bases = append(bases, base)
	}
	return r, UseBases(r, bases)
}

// UseBases gives a delta its base: the archive with the digest that the delta names, else the first
// one. The base first gets its own base in the same way.
func UseBases(r *archive.Reader, bases []*archive.Reader) error {
	if r.Delta() == nil || len(bases) == 0 {
		return nil
	}
	i := max(0, slices.IndexFunc(bases, func(b *archive.Reader) bool { return b.Manifest().Digest == r.Delta().Base }))
	base := bases[i]
	if err := UseBases(base, slices.Delete(slices.Clone(bases), i, i+1)); err != nil {
		return err
	}
	return r.UseBase(base)
}

// Since returns the archive that a delta is based on. The flag names its file or its checkpoint.
func Since(a *cli.App, ctx context.Context, d *cli.Workspace, flags PackFlags, o archive.WriteOptions) (base *archive.Base, err error) {
	if flags.Since == "" {
		return nil, nil
	}
	if cli.IsArchiveName(flags.Since) {
		path, _, err := ArchivePath(a, flags.Since)
		if err != nil {
			return nil, err
		}
		r, err := OpenArchive(a, path, "")
		if err != nil {
			return nil, err
		}
		return &archive.Base{Manifest: r.Manifest(), Name: filepath.Base(path)}, r.Close()
	}
	p, err := packedCheckpoint(a, ctx, d, flags.Since, flags)
	defer func() { err = errors.Join(err, p.Cleanup()) }()
	if err != nil {
		return nil, err
	}
	m, err := archive.Describe(ctx, p.State, o)
	if err != nil {
		return nil, err
	}
	return &archive.Base{Manifest: m, Name: p.Name}, nil
}

// DeltaContents counts the contents that a delta leaves to its base.
type DeltaContents struct {
	Base    string `json:"base"`
	Name    string `json:"name,omitempty"`
	Files   int    `json:"files"`   // files that begin with the content of a file of the base
	Bytes   int64  `json:"bytes"`   // of these contents
	Missing int    `json:"missing"` // files that cannot be read without another archive
}

// DeltaOf describes a delta. It returns nil for an archive that needs no base.
func DeltaOf(r *archive.Reader) *DeltaContents {
	d := r.Delta()
	if d == nil {
		return nil
	}
	c := &DeltaContents{Base: d.Base, Name: d.Name, Files: len(d.Files)}
	for _, f := range d.Files {
		c.Bytes += f.Size
	}
	c.Missing, _ = r.Missing()
	return c
}

// BaseName names the archive that a delta is based on.
func (c *DeltaContents) BaseName() string {
	if c.Name == "" {
		return cli.Inline(c.Base)
	}
	return cli.Inline(c.Name) + ", " + cli.Inline(c.Base)
}
