package archive

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Into says where an archive is loaded to and what of it. The zero value of everything but
// Dir loads the workspaces of all agents, and sessions and the world only if the archive is
// known to come from here.
type Into struct {
	// Dir is the directory to make. It must not exist, or be empty.
	Dir string
	// TrustSession loads the sessions and the world of an archive from elsewhere. Their
	// author then puts words into the mouths of your agent and its user.
	TrustSession bool
	// Ours says whether an archive with a state digest was made here. Nil knows none.
	Ours func(digest string) bool
	// Tiers and Agents choose parts of the archive; empty is all.
	Tiers  []Tier
	Agents []string
	// MaxBytes bounds the sum of the files' sizes; 0 is 256 GiB. The free space of the disk
	// bounds it, too.
	MaxBytes int64
	// Progress, if given, is called with the bytes that are written and the sum.
	Progress func(done, total int64)
	// FS is the file system to write through; nil is the operating system's.
	FS vfs.FS
}

const defaultMaxBytes = 256 << 30

// Loaded is the result of a load. Paths are absolute if Into.Dir is.
type Loaded struct {
	Metadata *Metadata
	Manifest *Manifest
	World    string // the path of the world's document, or ""
	Agents   map[string]LoadedAgent
	// Skipped are the files that the archive has and that were not written, with the reason.
	Skipped []Omission
}

// LoadedAgent has the directories of an agent, or "" for what was not loaded.
type LoadedAgent struct {
	Workspace string
	Session   string
}

// Reasons of Loaded.Skipped, beside those of an Omission.
const (
	SkippedForeign = "session of another machine" // see Into.TrustSession
	SkippedChoice  = "not asked for"
)

// Load extracts an archive to a new directory: DIR/world.snapshot, DIR/agents/NAME/workspace
// and DIR/agents/NAME/session. Everything is checked before the first byte is written; the
// directory appears when it is complete, and does not if anything fails. Credentials and
// the configuration of agents are never written, and are listed in Loaded.Skipped.
//
// The error has KindCorrupt for a file that is not a sound archive, KindConflict if Dir is
// there and not empty, and KindRefused if the content is too large.
func Load(ctx context.Context, name string, into Into) (*Loaded, error) {
	r, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.Load(ctx, into)
}

// Load is [Load] for an open archive.
func (r *Reader) Load(ctx context.Context, into Into) (*Loaded, error) {
	if into.FS == nil {
		into.FS = vfs.OS
	}
	l := &loader{r: r, into: &into, loaded: &Loaded{Metadata: r.metadata, Manifest: r.manifest, Agents: map[string]LoadedAgent{}}}
	l.choose()
	if err := l.check(); err != nil {
		return nil, err
	}
	if err := l.extract(ctx); err != nil {
		return nil, segno.NewError(loadKind(err), "load archive", into.Dir, err)
	}
	return l.loaded, nil
}

func loadKind(err error) segno.Kind {
	var pathError *fs.PathError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return segno.KindCancelled
	case errors.As(err, &pathError), errors.Is(err, os.ErrExist):
		return segno.KindIO
	}
	return segno.KindCorrupt
}

// A loader is one load.
type loader struct {
	r       *Reader
	into    *Into
	loaded  *Loaded
	entries []int // of the manifest
	dirs    []string
	links   []Link
	total   int64
	done    int64
}

// choose decides for each file whether it is written.
func (l *loader) choose() {
	m := l.r.manifest
	for i, e := range m.Entries {
		if why := l.skips(e.Path, e.Tier); why != "" {
			l.loaded.Skipped = append(l.loaded.Skipped, Omission{Path: e.Path, Why: why, Bytes: e.Size})
			continue
		}
		l.entries = append(l.entries, i)
		l.total += e.Size
	}
	for _, d := range m.Dirs {
		_, tier, _, _ := splitPath(d)
		if why := l.skips(d, tier); why != "" {
			l.loaded.Skipped = append(l.loaded.Skipped, Omission{Path: d, Why: why})
			continue
		}
		l.dirs = append(l.dirs, d)
	}
	for _, k := range m.Links {
		if why := l.skips(k.Path, Workspace); why != "" {
			l.loaded.Skipped = append(l.loaded.Skipped, Omission{Path: k.Path, Why: why})
			continue
		}
		l.links = append(l.links, k)
	}
}

// skips returns why a path is not written, or "".
func (l *loader) skips(name string, tier Tier) string {
	agent, _, rest, _ := splitPath(name)
	switch {
	case len(l.into.Tiers) > 0 && !slices.Contains(l.into.Tiers, tier),
		tier != World && len(l.into.Agents) > 0 && !slices.Contains(l.into.Agents, agent):
		return SkippedChoice
	case tier != Workspace && !l.trusted():
		return SkippedForeign
	case tier != World && denied(tier, rest):
		return OmittedCredential
	}
	return ""
}

func (l *loader) trusted() bool {
	return l.into.TrustSession || l.into.Ours != nil && l.into.Ours(l.r.manifest.Digest)
}

// check refuses a load that cannot succeed.
func (l *loader) check() error {
	dir := l.into.Dir
	for i := range l.r.headers {
		if err := l.r.checkLocal(&l.r.headers[i]); err != nil {
			return segno.NewError(segno.KindCorrupt, "load archive", dir, err)
		}
	}
	most := l.into.MaxBytes
	if most == 0 {
		most = defaultMaxBytes
	}
	if l.total > most {
		return segno.Errorf(segno.KindRefused, "load archive", dir, "the files have %d bytes, more than the limit of %d", l.total, most)
	}
	if free, err := freeSpace(filepath.Dir(filepath.Clean(dir))); err == nil && l.total > free {
		return segno.Errorf(segno.KindRefused, "load archive", dir, "the files have %d bytes and the disk has %d free", l.total, free)
	}
	switch there, err := os.ReadDir(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return segno.NewError(segno.KindConflict, "load archive", dir, err)
	case len(there) > 0:
		return segno.Errorf(segno.KindConflict, "load archive", dir, "the directory is not empty").
			WithHint("name a directory that does not exist")
	}
	return nil
}

// extract writes everything to a directory beside the target, and renames it.
func (l *loader) extract(ctx context.Context) (err error) {
	fsys, dir := l.into.FS, filepath.Clean(l.into.Dir)
	partial := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".partial-"+segno.NewID()[:8])
	if err := vfs.MkdirAll(fsys, filepath.Dir(dir)); err != nil {
		return err
	}
	if err := fsys.Mkdir(partial, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	if err := l.write(ctx, partial); err != nil {
		return err
	}
	if err := syncTree(partial); err != nil {
		return err
	}
	if err := fsys.Chmod(partial, 0o755); err != nil {
		return err
	}
	// os.Rename replaces no directory. Remove fails if the directory is not empty any more.
	if info, statErr := os.Lstat(dir); statErr == nil && info.IsDir() {
		if err := fsys.Remove(dir); err != nil {
			return err
		}
	}
	if err := fsys.Rename(partial, dir); err != nil {
		return err
	}
	l.report(dir)
	return fsys.SyncDir(filepath.Dir(dir))
}

// report fills in the paths of what was loaded.
func (l *loader) report(dir string) {
	place := func(name string) {
		agent, tier, _, ok := splitPath(name)
		if !ok {
			l.loaded.World = filepath.Join(dir, worldName)
			return
		}
		a := l.loaded.Agents[agent]
		root := filepath.Join(dir, "agents", agent, string(tier))
		if tier == Session {
			a.Session = root
		} else {
			a.Workspace = root
		}
		l.loaded.Agents[agent] = a
	}
	for _, i := range l.entries {
		place(l.r.manifest.Entries[i].Path)
	}
	for _, d := range l.dirs {
		place(d)
	}
	for _, k := range l.links {
		place(k.Path)
	}
}

// write writes files, empty directories and links, in this order, so that no name leads
// through a link.
func (l *loader) write(ctx context.Context, dir string) error {
	root, err := l.into.FS.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	t := &treeWriter{root: root, made: map[string]bool{".": true}}
	defer t.close()
	for _, i := range l.entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.writeFile(t, i); err != nil {
			return err
		}
	}
	for _, d := range l.dirs {
		if err := t.mkdirAll(d); err != nil {
			return err
		}
	}
	for _, k := range l.links {
		in, err := t.enter(path.Dir(k.Path))
		if err != nil {
			return err
		}
		if err := in.Symlink(k.Target, path.Base(k.Path)); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) writeFile(t *treeWriter, i int) error {
	e := &l.r.manifest.Entries[i]
	in, err := t.enter(path.Dir(e.Path))
	if err != nil {
		return err
	}
	perm := fs.FileMode(0o644)
	if e.Mode == modeExecutable {
		perm = 0o755
	}
	f, err := in.OpenFile(path.Base(e.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 64<<10)
	err = l.r.copyEntry(w, i)
	if err == nil {
		err = w.Flush()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	l.done += e.Size
	if l.into.Progress != nil {
		l.into.Progress(l.done, l.total)
	}
	if at, err := e.modified(); err == nil && !at.IsZero() {
		return in.Chtimes(path.Base(e.Path), at, at)
	}
	return nil
}

// A treeWriter keeps the directory that is being filled open, for one check of its path is
// enough for all files in it.
type treeWriter struct {
	root vfs.Root
	made map[string]bool
	dir  string
	open vfs.Root
}

// enter makes a directory and opens it.
func (t *treeWriter) enter(dir string) (vfs.Root, error) {
	if t.open != nil && t.dir == dir {
		return t.open, nil
	}
	if err := t.mkdirAll(dir); err != nil {
		return nil, err
	}
	t.close()
	sub, err := t.root.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	t.dir, t.open = dir, sub
	return sub, nil
}

func (t *treeWriter) mkdirAll(dir string) error {
	if t.made[dir] {
		return nil
	}
	if err := t.mkdirAll(path.Dir(dir)); err != nil {
		return err
	}
	if err := t.root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	t.made[dir] = true
	return nil
}

func (t *treeWriter) close() {
	if t.open != nil {
		t.open.Close()
		t.open = nil
	}
}

// Instructions lists the files of an archive that an agent in its workspace would read as
// instructions. They are words of whoever made the archive.
func (m *Manifest) Instructions() []string {
	var list []string
	for _, e := range m.Entries {
		if _, tier, rest, _ := splitPath(e.Path); tier == Workspace && isInstruction(rest) {
			list = append(list, e.Path)
		}
	}
	return list
}

// Denied lists the files of an archive that are never extracted. An archive that this
// package wrote has none.
func (m *Manifest) Denied() []string {
	var list []string
	for _, e := range m.Entries {
		if _, tier, rest, ok := splitPath(e.Path); ok && denied(tier, rest) {
			list = append(list, e.Path)
		}
	}
	return list
}

// Tree returns a tier of an agent as paths relative to it, in order.
func (m *Manifest) Tree(agent string, tier Tier) []Entry {
	prefix := "agents/" + agent + "/" + string(tier) + "/"
	var list []Entry
	for _, e := range m.Entries {
		if rest, ok := strings.CutPrefix(e.Path, prefix); ok {
			e.Path = rest
			list = append(list, e)
		}
	}
	return list
}

// ReadFile writes the content of one file of the archive to w, checked.
func (r *Reader) ReadFile(name string, w io.Writer) error {
	i := slices.IndexFunc(r.manifest.Entries, func(e Entry) bool { return e.Path == name })
	if i < 0 {
		return segno.NewError(segno.KindNotFound, "read file of archive", name, fs.ErrNotExist)
	}
	if err := r.copyEntry(w, i); err != nil {
		return segno.NewError(segno.KindCorrupt, "read file of archive", name, err)
	}
	return nil
}
