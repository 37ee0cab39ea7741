// Package local opens the store on this machine. It knows the paths of the
// database, the spool, the scan indexes and the logs, and combines them into a
// [timeline.Timeline].
//
//	segno.db packs/     store/sqlite
//	seal.json           internal/local/sealing: the key of a sealed store
//	converting/         the other form of the store, while it is sealed or unsealed
//	turns/ deferred/    internal/local/spool
//	journal/ locks/
//	runners/ paused/
//	untrusted/
//	index/<workspace>   workspace: the result of the last scan; a cache
//	index/sessions      facts about the sessions of agents; a cache, which exists also without a store
//	search/             search: the index of conversations and changes; a cache
//	watch/<workspace>   workspace: the socket of 'segno watch'
//	databases/          internal/database: the databases that are attached to each workspace
//	forks/              workspace: the incomplete directory of each fork under way
//	bisects/            insight/internal/bisect: the bisects under way
//	trusted             directories of other users that are recorded
//	hook.log            errors of hooks
//	backup/             settings from before segno was enabled
package local

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/internal/history/reachable"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/transcript/codex"
	"github.com/dalsegno/segno/transcript/filelog"
	"github.com/dalsegno/segno/transcript/readers"
	"github.com/dalsegno/segno/workspace"
)

// The names, in the directory of a store, of the database and of the directory of packs.
const (
	DatabaseFile = "segno.db"
	packsDir     = "packs"
)

// Homes has the directory of each agent, by the name of the agent. An agent without a directory is not listed.
type Homes map[string]string

// Place holds the paths and the options with which the store is opened. All paths are absolute.
type Place struct {
	Store     string // the store's directory
	UserHome  string // never a workspace
	Homes     Homes  // the directories of configuration of the agents
	Data      Homes  // the directories of sessions and logins, of the agents that keep them elsewhere
	GitIgnore string // the user's own git ignore file, where git looks by default
	FS        vfs.FS // nil means the file system of the operating system
	Now       func() time.Time
	Log       *slog.Logger
	StoreWait time.Duration // how long to wait for the store's writer; 0 is its default
	SudoUID   string        // id of the user that ran sudo, "" without sudo
	// Postgres connects to attached PostgreSQL databases. If it is nil, they are recorded as not readable.
	Postgres database.Postgres
	Actor    string // of the operations that the timelines of the store record; see segno.Operation
	Identity string // the key file of a sealed store; "" means the key file that the store records
}

// FindPlace derives the paths from the environment. store, if not empty, replaces the store's
// directory.
func FindPlace(getenv func(string) string, store string) (Place, error) {
	home := getenv("HOME")
	p := Place{UserHome: home, SudoUID: getenv("SUDO_UID"), Identity: getenv("SEGNO_IDENTITY"), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	var err error
	if p.Store, err = spool.FindStore(getenv, store); err != nil {
		return p, err
	}
	p.Homes, p.Data = Homes{}, Homes{}
	for _, a := range agents.All() {
		if dir := a.Home.Path(getenv); dir != "" {
			p.Homes[a.Name] = dir
		}
		if dir := a.Data.Path(getenv); dir != "" {
			p.Data[a.Name] = dir
		}
	}
	config := profile.Dir{{Variable: "XDG_CONFIG_HOME"}, {Variable: profile.UserHome, Below: ".config"}}.Path(getenv)
	if config != "" {
		p.GitIgnore = filepath.Join(config, "git", "ignore")
	}
	return p, nil
}

func (p Place) fs() vfs.FS {
	if p.FS == nil {
		return vfs.OS
	}
	return p.FS
}

// CheckOwner returns an error if another user controls the store.
func (p Place) CheckOwner() error { return spool.CheckOwner(p.Store) }

// ClaudeTranscripts returns the reader of Claude Code's sessions.
func (p Place) ClaudeTranscripts() *claude.Transcripts {
	return claude.New(p.Homes[claude.Agent], claude.Options{FS: p.FS})
}

// CodexTranscripts returns the reader of Codex's sessions.
func (p Place) CodexTranscripts() *codex.Transcripts {
	return codex.New(p.Homes[codex.Agent], codex.Options{FS: p.FS})
}

// Open opens the store, and creates it if it does not exist. It reads the key of a sealed store. If this process
// cannot write the store, for example because the disk is full, Open opens it for reading; see [Store.ReadOnly].
func (p Place) Open(ctx context.Context) (*Store, error) {
	if err := p.CheckOwner(); err != nil {
		return nil, err
	}
	readOnly := p.readOnly()
	if !readOnly {
		if err := vfs.MkdirAll(p.fs(), p.Store); err != nil {
			return nil, segno.NewError(segno.KindIO, "open store", p.Store, err).WithHint("use --store PATH")
		}
	}
	h, err := p.hold(ctx, readOnly)
	if err != nil {
		return nil, err
	}
	db, err := p.openDatabase(ctx, h.keys.Store, readOnly)
	isFull := errors.Is(err, syscall.ENOSPC) && p.Exists()
	if isFull {
		if full, fullErr := sqlite.Open(ctx, filepath.Join(p.Store, DatabaseFile), p.fullOptions(h.keys.Store)); fullErr == nil {
			db, err, readOnly = full, nil, true
		}
	}
	if err != nil {
		return nil, errors.Join(err, h.lock.Release())
	}
	return &Store{Store: db, place: p, hold: h, readOnly: readOnly, full: isFull}, nil
}

// readOnly reports whether there is a store that this process may not write.
func (p Place) readOnly() bool {
	if !p.Exists() {
		return false
	}
	return unix.Access(p.Store, unix.W_OK) != nil || unix.Access(filepath.Join(p.Store, DatabaseFile), unix.W_OK) != nil
}

// AgentDemo is the name of the scripted agent of 'segno demo'.
const AgentDemo = reachable.AgentDemo

// DemoHome returns the directory of the demo agent's sessions, which are in Claude Code's format.
func (p Place) DemoHome() string { return filepath.Join(p.Store, "demo-agent") }

// Transcripts returns the readers of sessions, by agent. The store's objects let a capture
// skip sidecars that have not changed.
func (s *Store) Transcripts() map[string]segno.Transcript {
	all := s.place.Transcripts(s.Objects())
	o := claude.Options{FS: s.place.FS, Objects: s.Objects(), Clock: s.place.Now, IsUntrusted: s.isUntrusted}
	all[claude.Agent] = claude.New(s.place.Homes[claude.Agent], o)
	o.Agent, o.Resume = AgentDemo, []string{"segno", "--store", s.place.Store, "demo-agent", "--resume"}
	all[AgentDemo] = claude.New(s.place.DemoHome(), o)
	all[filelog.Agent] = filelog.New("", s.place.FS) // for Trace; only the runner of generations has these files
	return all
}

// Transcripts returns the readers of sessions, by agent, for each agent whose directory is known. objects
// may be nil.
func (p Place) Transcripts(objects segno.Objects) map[string]segno.Transcript {
	all := map[string]segno.Transcript{}
	for _, r := range readers.All() {
		if dir := p.sessionsDir(r.Agent); dir != "" {
			all[r.Agent] = r.Open(dir, readers.Options{FS: p.FS, Objects: objects, Clock: p.Now})
		}
	}
	return all
}

// sessionsDir returns the directory in which an agent keeps its sessions, or "" if it is not known.
func (p Place) sessionsDir(agent string) string {
	if a, _ := agents.Of(agent); len(a.Data) > 0 {
		return p.Data[agent]
	}
	return p.Homes[agent]
}

// Exists reports whether there is a store. If only its database is missing, such as after an incomplete copy, there is one, and Open
// returns an error about that.
func (p Place) Exists() bool {
	if _, err := os.Stat(filepath.Join(p.Store, DatabaseFile)); err == nil {
		return true
	}
	packs, err := os.ReadDir(filepath.Join(p.Store, packsDir))
	return err == nil && len(packs) > 0
}

// Store is the open store of a place.
type Store struct {
	*sqlite.Store
	place    Place
	hold     *hold
	readOnly bool
	full     bool
	watches  *watches // nil unless this process watches directories
}

// ReadOnly reports whether the store can only be read. Every write then fails.
func (s *Store) ReadOnly() bool { return s.readOnly }

// Full reports whether the store is read-only because its disk is full.
func (s *Store) Full() bool { return s.full }

// readOnlyWorkspaces are the workspaces of a read-only store. Its PutWorkspace does nothing, so the new
// path of a moved workspace is not stored.
type readOnlyWorkspaces struct{ *sqlite.Store }

func (readOnlyWorkspaces) PutWorkspace(context.Context, segno.WorkspaceRecord) error { return nil }

// Place returns the Place that the store was opened with.
func (s *Store) Place() Place { return s.place }

// Find returns the deepest known workspace at or above a directory.
func (s *Store) Find(ctx context.Context, dir string) (segno.WorkspaceRecord, error) {
	if s.readOnly {
		return workspace.Find(ctx, readOnlyWorkspaces{s.Store}, dir)
	}
	return workspace.Find(ctx, s.Store, dir)
}

// SessionDir returns the directory of a session, or "" if no thread contains the session.
func (s *Store) SessionDir(ctx context.Context, session segno.SessionID) (string, error) {
	for t, err := range s.Threads(ctx, segno.ThreadQuery{Session: session, Limit: 1}) {
		if err != nil {
			return "", err
		}
		head, err := s.Head(ctx, t.ID)
		if err != nil || head.Link.Session == session {
			return head.Link.Dir, err
		}
		var dir string
		for l, err := range s.Chain(ctx, t.ID) {
			if err != nil {
				return "", err
			}
			if l.Session == session {
				dir = l.Dir
			}
		}
		return dir, nil
	}
	return "", nil
}

// Leased reports whether another process records a session. Such a process holds the lease of the session's thread.
func (s *Store) Leased(ctx context.Context, session segno.SessionID) (bool, error) {
	for t, err := range s.Threads(ctx, segno.ThreadQuery{Session: session, Limit: 1}) {
		if err != nil {
			return false, err
		}
		l, err := s.LeaseOf(ctx, t.ID)
		return l.Owner != "", err
	}
	return false, nil
}

// Register makes exactly this directory a workspace, or returns the workspace that it already is.
func (s *Store) Register(ctx context.Context, dir string) (segno.WorkspaceRecord, error) {
	// Two processes that register an unknown directory at once must get the same workspace.
	unlock, err := s.Spool().Lock(ctx, registerLock)
	if err != nil {
		return segno.WorkspaceRecord{}, err
	}
	defer unlock()
	return workspace.Register(ctx, s.Store, dir, s.limits())
}

// registerLock is the lock of [Store.Register].
const registerLock = "register"

func (s *Store) limits() workspace.Limits {
	return workspace.Limits{Home: s.place.UserHome, Store: s.place.Store, Trusted: s.place.isTrusted}
}

// Root returns the root directory of the workspace that a session in dir has or would get. See
// [workspace.Root].
func (s *Store) Root(ctx context.Context, dir string) (string, error) {
	root, err := workspace.Root(ctx, s.Store, dir, s.limits())
	if err != nil {
		return "", err
	}
	return root, workspace.CheckOwner(root, s.place.isTrusted)
}

// RegisterRoot returns the workspace of a session in dir. It registers the directory that Root
// returns if neither dir nor a directory above it is registered.
func (s *Store) RegisterRoot(ctx context.Context, dir string) (segno.WorkspaceRecord, error) {
	root, err := s.Root(ctx, dir)
	if err != nil {
		return segno.WorkspaceRecord{}, err
	}
	return s.Register(ctx, root)
}

// Progress has functions that are called while a timeline works on the files of its workspace. Each may be nil. Scanned is
// Progress of [workspace.Options], and Applied is Applied.
type Progress struct {
	Scanned, Applied func(done, total int64)
}

// Timeline returns the timeline of a workspace. progress may be nil. The error has
// [segno.KindRefused] if another user owns the directory: see [Place.Trust].
func (s *Store) Timeline(rec segno.WorkspaceRecord, progress *Progress) (*timeline.Timeline, error) {
	if progress == nil {
		progress = &Progress{}
	}
	return s.timeline(rec, *progress, nil)
}

// TimelineWithout is [Store.Timeline], except that the timeline never saves the absolute paths in exclude.
func (s *Store) TimelineWithout(rec segno.WorkspaceRecord, exclude []string) (*timeline.Timeline, error) {
	return s.timeline(rec, Progress{}, exclude)
}

func (s *Store) timeline(rec segno.WorkspaceRecord, progress Progress, exclude []string) (*timeline.Timeline, error) {
	if err := workspace.CheckOwner(rec.Path, s.place.isTrusted); err != nil {
		return nil, err
	}
	if !s.readOnly { // reading needs no index
		if err := vfs.MkdirAll(s.place.fs(), filepath.Join(s.place.Store, "index")); err != nil {
			return nil, segno.NewError(segno.KindIO, "open workspace", rec.Path, err)
		}
	}
	dir, err := s.openWorkspace(rec, progress, exclude)
	if err != nil {
		return nil, err
	}
	ws := s.withDatabases(dir)
	return timeline.Open(timeline.Config{Store: s.Store, Workspace: ws, Spool: s.Spool(), Now: s.place.Now, Alive: s.Spool().Alive(s.place.Now), Actor: s.place.Actor,
		Transcripts: s.Transcripts(), Register: s.registerFork(ws), Untrusted: s.Spool().Untrusted}), nil
}

func (s *Store) openWorkspace(rec segno.WorkspaceRecord, progress Progress, exclude []string) (*workspace.Dir, error) {
	return workspace.Open(rec.Path, workspace.Options{ID: rec.ID, Objects: s.Objects(),
		Index: s.IndexFile(rec.ID), ForkNote: s.forkNote(rec.ID), Exclude: append([]string{s.place.Store}, exclude...),
		Databases: s.databaseFiles(rec),
		Watch:     s.watches.of(rec), DialWatch: func() (workspace.WatchConn, error) { return s.dialWatch(rec.ID) },
		Sealer: s, Progress: progress.Scanned, Applied: progress.Applied, FS: s.place.FS, GitIgnore: s.place.GitIgnore})
}

// IndexFile returns the path of a workspace's scan index.
func (s *Store) IndexFile(id segno.WorkspaceID) string {
	return filepath.Join(s.place.Store, "index", segno.DerivedID("index", string(id)))
}

// NewTrace returns a function that calls visit for each object that a checkpoint of this store reaches, for one collection or one
// check. It has the signature that [segno.CollectPolicy] requires.
func (s *Store) NewTrace() func(ctx context.Context, o segno.Objects, c segno.Checkpoint, visit func(segno.Hash) bool) error {
	return new(reachable.Tracer).Trace
}
