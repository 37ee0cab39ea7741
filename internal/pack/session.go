package pack

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/vfs"
)

// neutralDir is the working directory in the temporary sessions that pack and unpack write. It is
// the same on all machines and does not exist.
const neutralDir = "/segno-neutral-directory"

// addSession cuts an agent's session at a position into a temporary home and adds its files.
func (b *builder) addSession(ctx context.Context, a *archive.AgentState, p *segno.Position) error {
	root := "agents/" + a.Info.Name + "/" + string(archive.Session)
	be := backendOf(p.Agent)
	switch {
	case b.options.OmitSession || b.options.WorkspaceOnly:
		b.omit(root, archive.OmittedByRequest)
		return nil
	case be == nil:
		b.omit(root, OmittedUnsupported)
		return nil
	}
	home, err := b.tempHome(ctx, a.Info.Name)
	if err == nil {
		err = b.cut(ctx, be, home, *p)
	}
	if err != nil {
		return segno.NewError(segno.KindOf(err), "pack session", string(p.Session), err).WithHint("use --omit-session to pack without the conversation")
	}
	a.Info.Backend, a.Info.SessionFormat, a.Info.SessionID = be.agent, be.Format, string(p.Session)
	return filepath.WalkDir(home, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(home, file)
		if err != nil {
			return err
		}
		name := be.toArchive(filepath.ToSlash(rel), neutralDir)
		if matches(be.Files, p.Session, name) {
			a.Session = append(a.Session, archive.File{Path: name, Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(file) }})
			return nil
		}
		o := omission(root+"/"+name, archive.OmittedProtected)
		if matches(be.Credentials, p.Session, name) {
			o.Why = archive.OmittedCredential
		}
		o.Bytes = info.Size()
		b.state.Omitted = append(b.state.Omitted, o)
		return nil
	})
}

// tempHome makes a temporary home for an agent.
func (b *builder) tempHome(ctx context.Context, agent string) (string, error) {
	if b.temp == nil {
		parent := b.parent
		if parent == "" {
			parent = os.TempDir()
		}
		var err error
		if b.temp, err = newTempDir(ctx, b.fsys, parent); err != nil {
			return "", err
		}
	}
	home := filepath.Join(b.temp.path, agent)
	return home, b.fsys.Mkdir(home, 0o700)
}

// cut writes the session that ends at p to a home.
func (b *builder) cut(ctx context.Context, be *backend, home string, p segno.Position) error {
	if !p.Log.IsZero() {
		p.Path = "" // use only the store, because the agent's own files may have changed
	}
	_, err := be.open(home, unsyncedFS{b.fsys}).Cut(ctx, p, segno.Target{Session: p.Session, Dir: neutralDir}, b.store.Objects())
	return missingIsCorrupt(err)
}

// unsyncedFS skips syncs, because temporary files need not be durable.
type unsyncedFS struct{ vfs.FS }

func (unsyncedFS) SyncDir(string) error { return nil }

func (f unsyncedFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{file}, nil
}

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error { return nil }
