// Package arrivals records what commits of another machine bring that needs trust: files that run programs, contain credentials
// or lead elsewhere. A pull to a store of this machine uses it, and a server whose store is on this machine.
package arrivals

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/workspace"
)

// Recorder records what commits bring, before they are in the store. So no undo, restore or fork writes it later, also if the
// process is killed. Its methods may be called concurrently.
type Recorder struct {
	store *local.Store

	mu     sync.Mutex
	states map[segno.CommitID]*arrived // of the newest commits, because the next ones follow them
}

// arrived is the state of the files at a commit.
type arrived struct {
	tree  segno.Hash
	world *segno.Document
	links map[string]string // see NewRule; commits share it while no link changes
}

// maxStates bounds the states in memory.
const maxStates = 4096

// NewRecorder returns a recorder for a store.
func NewRecorder(store *local.Store) *Recorder {
	return &Recorder{store: store, states: map[segno.CommitID]*arrived{}}
}

// Record records what commits bring for a thread. Their objects are in the store. The error has [segno.KindNotFound] if one is
// missing.
func (a *Recorder) Record(ctx context.Context, thread segno.ThreadID, commits []segno.Commit) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.states) > maxStates {
		clear(a.states)
	}
	err := a.record(ctx, thread, commits)
	if errors.Is(err, segno.KindNotFound) {
		err = segno.NewError(segno.KindNotFound, "record files of another machine", string(thread), err)
	}
	return err
}

func (a *Recorder) record(ctx context.Context, thread segno.ThreadID, commits []segno.Commit) error {
	u := timeline.Untrusted{Thread: thread}
	for i := range commits {
		c := &commits[i]
		if c.Link != nil {
			if err := a.addSession(ctx, &u, c.Link.Position); err != nil {
				return err
			}
			if !c.IsNode() {
				continue
			}
		}
		before := len(u.Files)
		if err := a.addCommit(ctx, &u, c); err != nil {
			return err
		}
		if len(u.Files) > before && !slices.Contains(u.Threads, c.Thread) {
			u.Threads = append(u.Threads, c.Thread)
		}
	}
	if len(u.Files)+len(u.Sidecars) == 0 {
		return nil
	}
	return a.store.Spool().AddUntrusted(ctx, u)
}

// addCommit adds what a commit brings beyond its parent.
func (a *Recorder) addCommit(ctx context.Context, u *timeline.Untrusted, c *segno.Commit) error {
	before, err := a.state(ctx, c.Parent)
	if err != nil {
		return err
	}
	a.states[c.ID] = before
	if c.Checkpoint == nil {
		return nil
	}
	if err := a.addSession(ctx, u, c.Checkpoint.Session); err != nil {
		return err
	}
	rule := NewRule(before.links, nil)
	if s := c.Checkpoint.Workspace; s != nil {
		changes, err := workspace.Diff(ctx, a.store.Objects(), before.tree, s.Tree)
		if err != nil {
			return err
		}
		after := &arrived{s.Tree, s.World, linksAfter(before.links, changes)}
		a.states[c.ID], rule = after, NewRule(after.links, a.names(ctx, s.Tree))
		add(u, rule, changes)
		if s.World != nil && (before.world == nil || *s.World != *before.world) {
			written, err := database.Statements(ctx, a.store.Objects(), s.World)
			if err != nil {
				return err
			}
			for _, w := range written {
				u.Files = append(u.Files, timeline.UntrustedFile{Path: []byte(w.Path), Entity: w.To})
			}
		}
	}
	// The points inside a turn that cannot be read are none, here and for a restore. A list that is missing may arrive before the commit is
	// made, because no store accepts the commit without it.
	err = timeline.VisitPoints(ctx, a.store.Objects(), c.Checkpoint, func(name string, e segno.Entity) { add(u, rule, []segno.Change{{Path: name, To: e}}) })
	if kind := segno.KindOf(err); kind == segno.KindIO || kind == segno.KindCancelled || kind == segno.KindNotFound {
		return err
	}
	return nil
}

// add adds the changes that write a file which needs trust.
func add(u *timeline.Untrusted, rule *Rule, changes []segno.Change) {
	for _, c := range changes {
		if needs, isSetID := rule.Needs(c.Path, c.To); needs {
			u.Files = append(u.Files, timeline.UntrustedFile{Path: []byte(c.Path), Entity: c.To, SetID: isSetID})
		}
	}
}

// addSession adds the list of the files beside a transcript, if the agent would run one of them.
func (a *Recorder) addSession(ctx context.Context, u *timeline.Untrusted, p *segno.Position) error {
	if p == nil || p.Sidecars.IsZero() {
		return nil
	}
	harmless, err := claude.FilterSidecars(ctx, a.store.Objects(), p.Sidecars, func(name string) bool { return !claude.IsRun(name) })
	if err == nil && segno.HashOf(harmless) != p.Sidecars {
		u.Sidecars = append(u.Sidecars, p.Sidecars)
	}
	return err
}

// state returns the state of the files at a commit, which is that of the nearest ancestor with files.
func (a *Recorder) state(ctx context.Context, at segno.CommitID) (*arrived, error) {
	if s := a.states[at]; s != nil || at == "" {
		if s == nil {
			s = &arrived{}
		}
		return s, nil
	}
	s := &arrived{}
	for n, err := range segno.Ancestors(ctx, a.store, at, segno.Window{Last: 4}) {
		if err != nil {
			return nil, err
		}
		if n.Checkpoint != nil && n.Checkpoint.Workspace != nil {
			s.tree, s.world = n.Checkpoint.Workspace.Tree, n.Checkpoint.Workspace.World
			break
		}
	}
	tree, err := workspace.Diff(ctx, a.store.Objects(), segno.Hash{}, s.tree)
	if err != nil {
		return nil, err
	}
	s.links = LinksOf(tree)
	a.states[at] = s
	return s, nil
}

// linksAfter returns the symbolic links of a tree after changes.
func linksAfter(links map[string]string, changes []segno.Change) map[string]string {
	isShared := true
	for _, c := range changes {
		if c.From.Type != segno.EntitySymlink && c.To.Type != segno.EntitySymlink {
			continue
		}
		if isShared {
			if links = maps.Clone(links); links == nil {
				links = map[string]string{}
			}
			isShared = false
		}
		delete(links, c.Path)
		if c.To.Type == segno.EntitySymlink {
			links[c.Path] = c.To.Target
		}
	}
	return links
}

// names returns the function that lists the names in a directory of a tree, which reads the tree at the first call: only a file
// HEAD needs them.
func (a *Recorder) names(ctx context.Context, tree segno.Hash) func(dir string) []string {
	var names func(dir string) []string
	return func(dir string) []string {
		if names == nil {
			all, err := workspace.Diff(ctx, a.store.Objects(), segno.Hash{}, tree)
			if err != nil {
				return []string{"refs"} // not known, so the file may be that of a repository
			}
			names = NamesOf(all)
		}
		return names(dir)
	}
}
