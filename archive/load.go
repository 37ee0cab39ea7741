package archive

import (
	"cmp"
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

// Into configures where an archive is loaded to and which parts of it. If only Dir is set, Load
// extracts the workspaces of all agents, and sessions and the world only if the archive is known to
// come from this machine.
type Into struct {
	// Dir is the directory to create. It must be empty or not exist.
	Dir string
	// TrustSession loads the sessions and the world of an archive from elsewhere. The author of
	// such an archive can write words that your agent and its user seem to have said.
	TrustSession bool
	// Ours reports whether the archive with a state digest was made here. nil knows no archive.
	Ours func(digest string) bool
	// Tiers and Agents choose parts of the archive; empty is all.
	Tiers  []Tier
	Agents []string
	// Base has the files that a delta leaves to another archive. See [Reader.UseBase].
	Base *Reader
	// MaxBytes bounds the sum of the files' sizes; 0 is 256 GiB. The free space of the disk
	// bounds it, too.
	MaxBytes int64
	// Progress, if given, is called with the number of bytes written so far and the total.
	Progress func(done, total int64)
	// FS is the file system to write through; nil is the operating system's.
	FS vfs.FS
}

// DefaultMaxBytes is the limit of a load that sets none.
const DefaultMaxBytes = 256 << 30

// Loaded is the result of a load. Paths are absolute if Into.Dir is.
type Loaded struct {
	Metadata *Metadata
	Manifest *Manifest
	World    string // the path of the world's document, or ""
	Agents   map[string]LoadedAgent
	// Skipped are the files in the archive that were not written, each with the reason.
	Skipped []Omission
}

// LoadedAgent contains the directories of an agent. A directory that was not loaded is "".
type LoadedAgent struct {
	Workspace string
	Session   string
	Thread    string
}

// Reasons in Loaded.Skipped, in addition to those of an Omission.
const (
	SkippedForeign = "session of another machine" // see Into.TrustSession
	SkippedChoice  = "not asked for"
)

// Load extracts an archive to a new directory: DIR/world.snapshot, DIR/agents/NAME/workspace
// and DIR/agents/NAME/session. It checks everything before it writes the first byte. The
// directory appears when it is complete, and does not appear if anything fails. Load never writes
// credentials and the configuration of agents, and lists them in Loaded.Skipped.
//
// The error has KindCorrupt if the file is not a sound archive, KindConflict if Dir exists and is
// not empty, and KindRefused if the content is too large, if a delta lacks its base, or if
// [CheckTarget] refuses Dir.
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
	if into.Base != nil {
		if err := r.UseBase(into.Base); err != nil {
			return nil, err
		}
	}
	l.choose()
	if err := l.check(); err != nil {
		return nil, err
	}
	if err := l.extract(ctx); err != nil {
		return nil, segno.NewError(loadKind(err), "load archive", into.Dir, err)
	}
	return l.loaded, nil
}

// Check returns the error with which Load would refuse the archive before reading a file. It writes
// nothing.
func (r *Reader) Check(into Into) error {
	if into.Base != nil {
		if err := r.UseBase(into.Base); err != nil {
			return err
		}
	}
	l := &loader{r: r, into: &into, loaded: &Loaded{}}
	l.choose()
	return l.check()
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
	git     gitDirs
}

// choose decides which files are written.
func (l *loader) choose() {
	m := l.r.manifest
	l.git = m.gitDirs()
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
	var links []Link
	for _, k := range m.Links {
		why := l.skips(k.Path, Workspace)
		if why == "" && deniedLink(k.Path) {
			why = OmittedCredential
		}
		if why != "" {
			l.loaded.Skipped = append(l.loaded.Skipped, Omission{Path: k.Path, Why: why})
			continue
		}
		links = append(links, k)
	}
	var unsafe []Link // without the links that are skipped
	l.links, unsafe = splitLinks(links)
	for _, k := range unsafe {
		l.loaded.Skipped = append(l.loaded.Skipped, Omission{Path: k.Path, Why: OmittedLink})
	}
}

// skips returns why a path is not written, or "".
func (l *loader) skips(name string, tier Tier) string {
	agent, _, _, _ := splitPath(name)
	switch {
	case len(l.into.Tiers) > 0 && !slices.Contains(l.into.Tiers, tier),
		tier != World && len(l.into.Agents) > 0 && !slices.Contains(l.into.Agents, agent):
		return SkippedChoice
	case tier != Workspace && !l.trusted():
		return SkippedForeign
	case tier != World && denied(tier, name), tier == Workspace && l.git.hasHead(name): // also the name of an agent can be a place
		return OmittedCredential
	}
	return ""
}

func (l *loader) trusted() bool {
	return l.into.TrustSession || l.into.Ours != nil && l.into.Ours(l.r.manifest.Digest)
}

// check returns an error for a load that cannot succeed.
func (l *loader) check() error {
	dir := l.into.Dir
	if err := CheckTarget("load archive", dir); err != nil {
		return err
	}
	var u unpacker
	for i := range l.r.headers {
		if err := l.r.checkLocal(&u, &l.r.headers[i]); err != nil {
			return segno.NewError(segno.KindCorrupt, "load archive", dir, err)
		}
	}
	if slices.ContainsFunc(l.entries, l.r.lacks) {
		return l.r.missingBase("load archive")
	}
	most := l.into.MaxBytes
	if most == 0 {
		most = DefaultMaxBytes
	}
	if l.total > most {
		return segno.Errorf(segno.KindRefused, "load archive", dir, "the files have %d bytes, more than the limit of %d", l.total, most).
			WithHint("allow more with --max-size if you trust the author")
	}
	if free, err := FreeSpace(filepath.Dir(filepath.Clean(dir))); err == nil && l.total > free {
		return segno.Errorf(segno.KindRefused, "load archive", dir, "the files have %d bytes and the disk has %d free", l.total, free).
			WithHint("make space, or load to another disk")
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
	// os.Rename replaces no directory. Remove fails if the directory is no longer empty.
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

// report fills in the paths of the loaded files.
func (l *loader) report(dir string) {
	place := func(name string) {
		agent, tier, _, ok := splitPath(name)
		if !ok {
			l.loaded.World = filepath.Join(dir, worldName)
			return
		}
		a := l.loaded.Agents[agent]
		root := filepath.Join(dir, "agents", agent, string(tier))
		switch tier {
		case Session:
			a.Session = root
		case Thread:
			a.Thread = root
		default:
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

// write writes directories, files and links, in this order, so that no path passes through a
// link.
func (l *loader) write(ctx context.Context, dir string) error {
	root, err := l.into.FS.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	folders := l.folders()
	made := map[string]bool{".": true}
	for _, f := range folders {
		if err := mkdirAll(root, f.path, made); err != nil {
			return err
		}
	}
	err = inParallel(ctx, len(folders), &meter{report: l.into.Progress, total: l.total}, func(u *unpacker, i int) error { return l.writeFiles(ctx, u, root, &folders[i]) })
	if err != nil {
		return err
	}
	for _, k := range l.links {
		if err := root.Symlink(k.Target, k.Path); err != nil {
			return err
		}
	}
	return nil
}

func mkdirAll(root vfs.Root, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := mkdirAll(root, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	// On some systems the directory already exists under a name in other case.
	if err := root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// A folder is a directory to create, with the entries that are files in it.
type folder struct {
	path    string
	entries []int
	bytes   int64
}

// folders lists the directories to create. Directories with many bytes come first: one that is begun
// last would keep one worker busy and the others idle.
func (l *loader) folders() []folder {
	var list []folder
	index := map[string]int{}
	at := func(dir string) *folder {
		if _, ok := index[dir]; !ok {
			index[dir] = len(list)
			list = append(list, folder{path: dir})
		}
		return &list[index[dir]]
	}
	for _, i := range l.entries {
		e := &l.r.manifest.Entries[i]
		f := at(path.Dir(e.Path))
		f.entries = append(f.entries, i)
		f.bytes += e.Size
	}
	for _, d := range l.dirs {
		at(d)
	}
	for _, k := range l.links {
		at(path.Dir(k.Path))
	}
	const much = 8 << 20
	slices.SortStableFunc(list, func(a, b folder) int { return cmp.Compare(max(b.bytes, much), max(a.bytes, much)) })
	return list
}

// writeFiles writes the files of a directory through a separate root for that directory, so that
// one check of the directory's path is enough for all of them.
func (l *loader) writeFiles(ctx context.Context, u *unpacker, root vfs.Root, f *folder) error {
	if len(f.entries) == 0 {
		return nil
	}
	in, err := root.OpenRoot(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	for _, i := range f.entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.writeFile(u, in, i); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) writeFile(u *unpacker, in vfs.Root, i int) error {
	e := &l.r.manifest.Entries[i]
	name, perm := path.Base(e.Path), fs.FileMode(0o644)
	if e.Mode == modeExecutable {
		perm = 0o755
	}
	f, err := in.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	w := u.writer(f)
	err = l.r.copyEntry(u, w, i)
	if err == nil {
		err = w.Flush()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	if at, err := e.modified(); err == nil && !at.IsZero() {
		return in.Chtimes(name, at, at)
	}
	return nil
}

// Instructions lists the files of an archive that an agent in its workspace would read as
// instructions. The author of the archive wrote them.
func (m *Manifest) Instructions() []string {
	var list []string
	for _, e := range m.Entries {
		if _, tier, rest, _ := splitPath(e.Path); tier == Workspace && IsInstruction(rest) {
			list = append(list, e.Path)
		}
	}
	return list
}

// Denied lists the files, empty directories and links of an archive that are never extracted. The
// list is empty for an archive that this package wrote.
func (m *Manifest) Denied() []string {
	var list []string
	git := m.gitDirs()
	for _, e := range m.Entries {
		if e.Tier != World && denied(e.Tier, e.Path) || e.Tier == Workspace && git.hasHead(e.Path) {
			list = append(list, e.Path)
		}
	}
	for _, d := range m.Dirs {
		if _, tier, _, _ := splitPath(d); denied(tier, d) {
			list = append(list, d)
		}
	}
	for _, l := range m.Links {
		if deniedLink(l.Path) || git.hasHead(l.Path) {
			list = append(list, l.Path)
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

// ReadFile writes the content of one file of the archive to w and checks its hash.
func (r *Reader) ReadFile(name string, w io.Writer) error {
	i, ok := r.paths[name]
	if !ok {
		return segno.NewError(segno.KindNotFound, "read file of archive", name, fs.ErrNotExist)
	}
	if r.lacks(i) {
		return r.missingBase("read file of archive")
	}
	var u unpacker
	defer u.close()
	if err := r.copyEntry(&u, w, i); err != nil {
		return segno.NewError(segno.KindCorrupt, "read file of archive", name, err)
	}
	return nil
}
