package pack

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/vfs"
)

// Into chooses the parts of an archive to unpack, and the directories for them. Fields with the
// names of those of [archive.Into] have the same meaning.
type Into struct {
	// Dir is the directory to make. It must be empty if it exists.
	Dir          string
	TrustSession bool
	Ours         func(digest string) bool
	// NewSession gives each session a new id. Otherwise a session keeps its id if the agent's
	// home has no session with it.
	NewSession bool
	// Home returns the absolute path of the directory in which an agent keeps its sessions, or "" to skip sessions of
	// that agent. agent is an [archive.AgentInfo.Backend]. Callers usually pass [DefaultHome]. If Home is nil, no
	// sessions are unpacked.
	Home func(agent string) string
	// HomeOf, if not nil, replaces Home. It also receives the name of the agent in the archive, for agents that each
	// have a separate home. The home must not be below Dir.
	HomeOf   func(name, agent string) string
	Tiers    []archive.Tier
	Agents   []string
	MaxBytes int64
	Progress func(done, total int64)
	FS       vfs.FS // for all writes; nil means the operating system
}

// Unpacked is the result of [Unpack].
type Unpacked struct {
	Dir    string // absolute, with symlinks resolved
	World  string // the path of the world's document, or ""
	Agents []UnpackedAgent
	// Skipped are the files of the archive that were not unpacked, with the reasons.
	Skipped []archive.Omission
}

// UnpackedAgent is one agent of an archive.
type UnpackedAgent struct {
	Name    string
	Backend string
	Dir     string          // its workspace
	Session segno.SessionID // the session's id in the agent's home, or "" if no session was unpacked
	Command []string        // continues the session if run in Dir; nil if there is no session
}

// Reasons of Unpacked.Skipped, beside those of package archive.
const (
	// SkippedUnsupported is a session in a format that backend.go does not list.
	SkippedUnsupported = "unsupported session format"
	// SkippedHome is a session for whose agent Into.Home returns no directory.
	SkippedHome = "no home of the agent"
	// SkippedOther is a file of the session tier that does not belong to a session of its format.
	SkippedOther = "no file of the session"
)

// Unpack extracts an archive. If the archive has one agent and no world, Dir becomes the workspace
// of that agent. Otherwise Dir gets world.snapshot and agents/NAME/workspace. Each session is added
// to the home of its agent, so that the agent resumes it in its workspace. Unpack only adds files
// to a home, and changes no session that exists there.
//
// If Unpack fails, it leaves neither Dir nor a session behind. If the process is killed, Dir is
// either complete or does not exist. If it does not exist, a session without a directory can
// remain, and so can a hidden directory beside Dir. A later Unpack into the same parent removes the
// hidden directory when it is at least an hour old. The user can repeat Unpack immediately.
//
// Errors are those of [archive.Load]. The error also has [segno.KindCorrupt] if the agent could
// not resume a session of the archive, and [segno.KindBusy] if another process unpacks into the
// same home.
func Unpack(ctx context.Context, r *archive.Reader, into Into) (*Unpacked, error) {
	if into.FS == nil {
		into.FS = vfs.OS
	}
	u := &unpacker{r: r, into: &into, made: &recorder{FS: into.FS}}
	err := u.run(ctx)
	if u.stage != nil {
		_ = u.stage.remove() // a remainder has no effect, and a later Unpack removes it
	}
	if err != nil {
		u.made.rollback()
	}
	for _, lock := range u.locks { // released last, because a rollback also needs the locks
		lock.Close()
	}
	if err != nil {
		return nil, u.describe(err)
	}
	return &u.out, nil
}

// An unpacker is the state of one call of Unpack.
type unpacker struct {
	r     *archive.Reader
	into  *Into
	out   Unpacked
	stage *tempDir  // a directory beside Dir for all files that are not yet in place
	made  *recorder // the files that are removed if the unpacking fails
	locks []*os.File
	homes []string // the locked homes
}

// loaded is the directory into which the archive is loaded.
func (u *unpacker) loaded() string { return filepath.Join(u.stage.path, "loaded") }

func (u *unpacker) run(ctx context.Context) error {
	if err := u.resolveDir(); err != nil {
		return err
	}
	var err error
	if u.stage, err = newTempDir(ctx, u.into.FS, filepath.Dir(u.out.Dir)); err != nil {
		return err
	}
	loaded, err := u.r.Load(ctx, archive.Into{Dir: u.loaded(), TrustSession: u.into.TrustSession, Ours: u.into.Ours,
		Tiers: u.into.Tiers, Agents: u.into.Agents, MaxBytes: u.into.MaxBytes, Progress: u.into.Progress, FS: u.into.FS})
	if err != nil {
		return err
	}
	u.out.Skipped = loaded.Skipped
	root := u.loaded() // the directory that becomes Dir
	isSingle := len(loaded.Manifest.Agents) == 1 && loaded.Manifest.World == nil
	for _, info := range loaded.Manifest.Agents {
		if len(u.into.Agents) > 0 && !slices.Contains(u.into.Agents, info.Name) {
			continue
		}
		a := UnpackedAgent{Name: info.Name, Backend: info.Backend, Dir: filepath.Join(u.out.Dir, "agents", info.Name, "workspace")}
		from := filepath.Join(u.loaded(), "agents", info.Name)
		if isSingle {
			a.Dir, root = u.out.Dir, filepath.Join(from, "workspace")
		}
		if err := u.mkdirAll(filepath.Join(from, "workspace")); err != nil {
			return err
		}
		if loaded.Agents[info.Name].Session != "" {
			if err := u.placeSession(ctx, info, &a); err != nil {
				return err
			}
		}
		u.out.Agents = append(u.out.Agents, a)
	}
	if loaded.World != "" {
		u.out.World = filepath.Join(u.out.Dir, filepath.Base(loaded.World))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return u.publish(root)
}

// resolveDir makes the directory above Dir and resolves its symlinks, because agents name
// sessions by real paths.
func (u *unpacker) resolveDir() error {
	if err := archive.CheckTarget("unpack archive", u.into.Dir); err != nil {
		return err
	}
	dir, err := filepath.Abs(u.into.Dir)
	if err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if err := vfs.MkdirAllSynced(u.made, parent); err != nil {
		return err
	}
	if parent, err = filepath.EvalSymlinks(parent); err != nil {
		return err
	}
	u.out.Dir = filepath.Join(parent, filepath.Base(dir))
	info, err := os.Lstat(u.out.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.IsDir() {
		err = fs.ErrExist
	}
	if err != nil {
		return segno.NewError(segno.KindConflict, "", "", err).WithHint("name a directory that does not exist")
	}
	there, err := os.ReadDir(u.out.Dir)
	if err == nil && len(there) > 0 {
		return segno.Errorf(segno.KindConflict, "", "", "the directory is not empty").WithHint("name a directory that does not exist")
	}
	return err
}

// mkdirAll makes a directory of the stage.
func (u *unpacker) mkdirAll(dir string) error { return vfs.MkdirAll(u.into.FS, dir) }

// publish renames the loaded tree to Dir.
func (u *unpacker) publish(root string) (err error) {
	fsys, dir := u.into.FS, u.out.Dir
	if err := u.removeSessions(); err != nil {
		return err
	}
	if err := fsys.Chmod(root, 0o755); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err == nil { // os.Rename does not replace a directory
		if err := fsys.Remove(dir); err != nil { // fails if the directory is not empty
			return taken(err)
		}
		defer func() {
			if err != nil {
				_ = fsys.Mkdir(dir, 0o755) // the first error matters more
			}
		}()
	}
	if err := fsys.Rename(root, dir); err != nil {
		return taken(err)
	}
	if err = fsys.SyncDir(filepath.Dir(dir)); err != nil && fsys.Rename(dir, root) != nil {
		u.made.created = nil // Dir cannot be removed again, so its sessions stay, too
	}
	return err
}

// taken returns err, or KindConflict if another process made Dir in the meantime.
func taken(err error) error {
	if errors.Is(err, fs.ErrExist) { // also matches the error for a directory that is not empty
		return segno.Errorf(segno.KindConflict, "", "", "another process made the directory").WithHint("name a directory that does not exist")
	}
	return err
}

// removeSessions removes the sessions from the loaded tree. At this point they are in the homes of
// their agents.
func (u *unpacker) removeSessions() error {
	for _, a := range u.out.Agents {
		if err := os.RemoveAll(filepath.Join(u.loaded(), "agents", a.Name, string(archive.Session))); err != nil {
			return err
		}
	}
	return nil
}

// describe rewrites an error about the stage as an error about Dir, because the user knows only
// Dir.
func (u *unpacker) describe(err error) error {
	const op = "unpack archive"
	var known *segno.Error
	if !errors.As(err, &known) {
		kind := segno.KindOf(err)
		if kind == segno.KindInternal {
			kind = segno.KindIO
		}
		return segno.NewError(kind, op, u.into.Dir, err)
	}
	if u.stage != nil && known.Name == u.loaded() || known.Name == "" {
		known.Op, known.Name = op, u.into.Dir
	}
	return err
}
