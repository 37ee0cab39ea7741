package timeline

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// Action is what a checkpoint did to a path.
type Action string

// The actions.
const (
	Created Action = "created"
	Changed Action = "changed" // its content, its type, its mode or another attribute
	Deleted Action = "deleted"
	Renamed Action = "renamed" // the same content has another path
)

// PathChange is one path that a checkpoint changed.
type PathChange struct {
	Path   string
	From   string // for Renamed, the path before; else ""
	Action Action
	// Before and After are the entities on both sides. For Renamed, Before was at From.
	Before, After segno.Entity
	// Call is the call of the turn that made the change, as far as the entries show it. It is nil if several calls may
	// have made it, if it is outside a turn, or if [PathFinder.FindCalls] was not called.
	Call *turns.Call
}

// IsAt reports whether the change is of the file or directory at a path, or below it. A renamed path is at both of its
// names. The path "" is the root of the workspace.
func (p *PathChange) IsAt(at string) bool {
	within := func(name string) bool { return at == "" || name == at || strings.HasPrefix(name, at+"/") }
	return within(p.Path) || p.Action == Renamed && within(p.From)
}

// PathFinder finds the checkpoints that touched a path, and what each of them did to it. It is the one answer to the
// question "which turn touched this file", for the log, search and the history of a file. The trees before and after
// each checkpoint decide, so a change by a shell command counts like one by an editing tool. A PathFinder needs no
// workspace on this machine, and is as safe for concurrent use as its fields.
//
// It does not see the content of attached databases, which no tree contains.
type PathFinder struct {
	Store segno.Store
	// Diff returns the changes between two trees, sorted by path, as [segno.Workspace] does. Its cost must depend on
	// what differs, not on the size of the trees, because it is called for each checkpoint that changed any file.
	Diff func(ctx context.Context, a, b segno.Hash) ([]segno.Change, error)
}

// Touch is a checkpoint that touched a path, with what it did there.
type Touch struct {
	Checkpoint *segno.Checkpoint
	Changes    []PathChange // sorted by path, at least one
}

// Touching yields those checkpoints, in the given order, that changed the file or directory at one of several paths or
// anything below it, with these changes and their calls. For each checkpoint it reads the parent; it compares trees only if they
// differ, and reads entries only of the checkpoints that it yields. It ends after an error.
func (f PathFinder) Touching(ctx context.Context, checkpoints iter.Seq[*segno.Checkpoint], paths ...string) iter.Seq2[Touch, error] {
	return func(yield func(Touch, error) bool) {
		for c := range checkpoints {
			changes, err := f.Changes(ctx, c)
			changes = slices.DeleteFunc(changes, func(x PathChange) bool { return !slices.ContainsFunc(paths, x.IsAt) })
			if err == nil {
				err = f.FindCalls(ctx, c, changes)
			}
			if err != nil {
				yield(Touch{Checkpoint: c}, err)
				return
			}
			if len(changes) > 0 && !yield(Touch{c, changes}, nil) {
				return
			}
		}
	}
}

// Changes returns all paths that a checkpoint changed since its parent, sorted by path, without their calls. Of a
// directory that was created or deleted with its content, it returns only the content. A file that was deleted and
// created with the same content at another path is one renamed path; a file that was also edited is a deleted and a
// created one. If the parent's files or the checkpoint's are not recorded, there are no changes. A path that segno only
// began or ceased to record is not a change.
func (f PathFinder) Changes(ctx context.Context, c *segno.Checkpoint) ([]PathChange, error) {
	if c.Tree().IsZero() || c.Parent == "" {
		return nil, nil
	}
	before, err := f.Before(ctx, c)
	if err != nil || before == nil || before.Tree().IsZero() || before.Tree() == c.Tree() {
		return nil, err
	}
	diff, err := f.Diff(ctx, before.Tree(), c.Tree())
	if err != nil {
		return nil, err
	}
	return PathChanges(diff), nil
}

// Before returns the checkpoint with which the files of a checkpoint are compared: its parent. Steps of a session have no
// files, and neither have commits that are not checkpoints. It returns nil if there is none.
func (f PathFinder) Before(ctx context.Context, c *segno.Checkpoint) (*segno.Checkpoint, error) {
	for n, err := range segno.Ancestors(ctx, f.Store, c.Parent, segno.Window{}) {
		if err != nil && segno.KindOf(err) == segno.KindNotFound {
			break // it was collected
		}
		if err != nil {
			return nil, err
		}
		if up := n.Checkpoint; up != nil && (up.Kind != segno.CheckpointStep || !up.Tree().IsZero()) {
			return up, nil
		}
	}
	return nil, nil
}

// PathChanges describes the changes between two trees, sorted by path, as [PathFinder.Changes] does.
func PathChanges(diff []segno.Change) []PathChange {
	all := make([]PathChange, 0, len(diff))
	for _, x := range diff {
		p := PathChange{Path: x.Path, Action: Changed, Before: x.From, After: x.To}
		switch {
		case x.From.Type == segno.EntityNone:
			p.Action = Created
		case x.To.Type == segno.EntityNone:
			p.Action = Deleted
		case x.From.Type == segno.EntityProtected || x.To.Type == segno.EntityProtected:
			continue // the path exists on both sides, and one of them does not have its content
		}
		if isDirOrNone(x.From) && isDirOrNone(x.To) && changesBelow(diff, x.Path) {
			continue
		}
		all = append(all, p)
	}
	return joinRenamed(all)
}

// changesBelow reports whether sorted changes have one below a directory.
func changesBelow(diff []segno.Change, dir string) bool {
	i, _ := slices.BinarySearchFunc(diff, dir+"/", func(x segno.Change, name string) int { return strings.Compare(x.Path, name) })
	return i < len(diff) && strings.HasPrefix(diff[i].Path, dir+"/")
}

func isDirOrNone(e segno.Entity) bool {
	return e.Type == segno.EntityDir || e.Type == segno.EntityNone
}

// joinRenamed replaces a deleted and a created path with the same content by one renamed path. If several match, one
// with the same base name comes first. An empty file is not evidence for a new name.
func joinRenamed(all []PathChange) []PathChange {
	deleted := map[segno.Hash][]int{} // by content
	for i := range all {
		if e := all[i].Before; all[i].Action == Deleted && e.HasContent() && e.Size > 0 {
			deleted[e.Hash] = append(deleted[e.Hash], i)
		}
	}
	gone := map[int]bool{}
	join := func(isSame func(from, to string) bool) {
		for i := range all {
			to := &all[i]
			if to.Action != Created || !to.After.HasContent() {
				continue
			}
			at := slices.IndexFunc(deleted[to.After.Hash], func(d int) bool { return !gone[d] && isSame(all[d].Path, to.Path) })
			if at < 0 {
				continue
			}
			d := deleted[to.After.Hash][at]
			gone[d] = true
			to.Action, to.From, to.Before = Renamed, all[d].Path, all[d].Before
		}
	}
	join(func(from, to string) bool { return path.Base(from) == path.Base(to) })
	join(func(string, string) bool { return true })
	kept := all[:0]
	for i := range all {
		if !gone[i] {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// FindCalls sets the calls of changes that [PathFinder.Changes] returned for a checkpoint.
func (f PathFinder) FindCalls(ctx context.Context, c *segno.Checkpoint, changes []PathChange) error {
	if len(changes) == 0 || c.Kind != segno.CheckpointTurn && c.Kind != segno.CheckpointStep {
		return nil
	}
	turn, entries, err := f.callsOf(ctx, c)
	if err != nil {
		return err
	}
	p := permissionsOf(entries)
	e := ownership.Evidence{Calls: ownership.Calls(entries, ownership.Context{Dir: dirOf(c), End: c.Time, Refused: p.refused, Permitted: p.given})}
	if c.Workspace != nil {
		e.Root = c.Workspace.Root
	}
	for i := range changes {
		x := &changes[i]
		gone := x.Action == Deleted || x.Action == Renamed
		if id := e.Maker(cmp.Or(x.From, x.Path), gone); id != "" {
			x.Call = turn.Call(id)
		}
	}
	return nil
}

// callsOf reads the calls of a checkpoint's turn, as a reader sees them and as entries.
func (f PathFinder) callsOf(ctx context.Context, c *segno.Checkpoint) (*turns.Turn, []segno.Entry, error) {
	if !turns.IsOfGoAgent(c) {
		entries, err := turnEntries(ctx, f.Store, c)
		if err != nil {
			return nil, nil, err
		}
		t := turns.Read([]segno.Node{{ID: c.ID, Entries: entries}}, c)
		return t, entries, nil
	}
	line, err := f.Store.Load(ctx, c.ID, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return nil, nil, err
	}
	t := turns.Read(line.Commits[len(line.Commits)-1:], c)
	var entries []segno.Entry
	for _, k := range t.Calls() {
		entries = append(entries, segno.Entry{Kind: segno.EntryIntent, ID: k.ID, Name: k.Tool, Time: k.Start, Body: k.Input})
		if k.Failed {
			entries = append(entries, segno.Entry{Kind: segno.EntryResult, ID: k.ID, Name: k.Tool, Time: k.End, Body: json.RawMessage(`{"status":"failed"}`)})
		}
	}
	return t, entries, nil
}
