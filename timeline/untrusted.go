package timeline

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
)

// Untrusted has what a thread brought from another machine and the user has not trusted: files that run programs, contain
// credentials or lead elsewhere, in any of its checkpoints. No move writes them: see [Config.Untrusted].
type Untrusted struct {
	Thread segno.ThreadID `json:"thread"` // the thread that brought them
	// Threads are those of the commits with the files: the thread, its parts, and the threads from which it was forked. If there
	// are none, as in the record of an earlier version, the files count for every thread.
	Threads []segno.ThreadID `json:"threads,omitempty"`
	Files   []UntrustedFile  `json:"files,omitempty"`
	// Sidecars are lists of files beside transcripts, with at least one that the agent runs.
	Sidecars []segno.Hash `json:"sidecars,omitempty"`
}

// UntrustedFile is one state of one path.
type UntrustedFile struct {
	Path   []byte       `json:"path"` // relative to the root, any bytes
	Entity segno.Entity `json:"entity"`
	// SetID is set if the file needs trust only because of its bits setuid and setgid.
	SetID bool `json:"set_id,omitempty"`
}

// SetIDs are the bits setuid and setgid. With them, a program runs with the rights of the owner of its file.
const SetIDs = 0o6000

// covers reports whether a move that writes to writes the untrusted state, in whatever form: a plan may write a hard link as
// a file. merged is set if to also has lines of others.
func (f *UntrustedFile) covers(to segno.Entity, merged bool) bool {
	switch e := &f.Entity; {
	case to.Type == segno.EntityNone, to.Type == segno.EntityProtected, f.SetID && to.Mode&SetIDs == 0:
		return false // it is not written
	case merged:
		return true // a part may come from it
	case e.HasContent():
		return to.HasContent() && to.Hash == e.Hash
	case e.Type == segno.EntitySymlink:
		return to.Type == e.Type && to.Target == e.Target
	case e.Type == segno.EntityDatabase:
		return to.Type == e.Type && to.Hash == e.Hash
	default:
		return to.Type == e.Type
	}
}

// refuseUntrusted refuses to write files that the user has not trusted. It refuses all of them, because a move that leaves
// some out would record them as deleted. lines returns the commits that the files come from. A record counts
// only if one of its threads has a commit on the lines of these: another project of the user may have the same file.
func (tx *txn) refuseUntrusted(ctx context.Context, verb segno.Verb, steps []segno.Change, lines func() ([]segno.CommitID, error)) error {
	if tx.Untrusted == nil || len(steps) == 0 {
		return nil
	}
	all, err := tx.Untrusted(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	byPath := map[string]*segno.Change{}
	for i := range steps {
		byPath[steps[i].Path] = &steps[i]
	}
	threads := sync.OnceValues(func() (map[segno.ThreadID]bool, error) { return tx.threadsOn(ctx, lines) })
	var found []string
	var from segno.ThreadID
	for i := range all {
		u := &all[i]
		paths := u.written(byPath)
		if len(paths) == 0 {
			continue
		}
		if len(u.Threads) > 0 {
			there, err := threads()
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(u.Threads, func(t segno.ThreadID) bool { return there[t] }) {
				continue
			}
		}
		found, from = append(found, paths...), u.Thread
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return RefuseUntrusted(string(verb), from, slices.Compact(found))
}

// written returns the paths at which steps write an untrusted state.
func (u *Untrusted) written(steps map[string]*segno.Change) (paths []string) {
	for i := range u.Files {
		f := &u.Files[i]
		if step := steps[string(f.Path)]; step != nil && f.covers(step.To, step.Merged) {
			paths = append(paths, string(f.Path))
		}
	}
	return paths
}

// threadsOn returns the threads of the checkpoints on the lines of commits. A commit that was collected has no line.
func (tx *txn) threadsOn(ctx context.Context, lines func() ([]segno.CommitID, error)) (map[segno.ThreadID]bool, error) {
	ids, err := lines()
	if err != nil {
		return nil, err
	}
	threads, done := map[segno.ThreadID]bool{}, map[segno.CommitID]bool{"": true, segno.Self: true}
	for _, id := range ids {
		if done[id] {
			continue
		}
		done[id] = true
		line, err := tx.line(ctx, id)
		if err != nil && segno.KindOf(err) != segno.KindNotFound {
			return nil, err
		}
		for _, c := range line {
			threads[c.Thread] = true
		}
	}
	return threads, nil
}

// linesOf returns the commits that the steps of a plan come from.
func (tx *txn) linesOf(ctx context.Context, ask MoveRequest, now currentState, p *Plan) ([]segno.CommitID, error) {
	ids := []segno.CommitID{now.head.Head, now.head.Tip, p.Target, p.Tip, ask.To}
	for _, id := range []segno.OperationID{p.Undoes, p.Finishes} {
		if id == "" {
			continue
		}
		op, err := tx.operationByID(ctx, id)
		if err != nil {
			return nil, err
		}
		if op != nil {
			ids = append(ids, op.Before.Head, op.Before.Tip, op.After.Head, op.After.Tip)
		}
	}
	return ids, nil
}

// UntrustedError is in the chain of an error with [segno.KindRefused] if a move would write files that a thread brought from
// another machine and the user has not trusted.
type UntrustedError struct {
	Paths []string // those of databases are [segno.DatabasePath]s
}

func (e *UntrustedError) Error() string {
	const most = 5
	shown := make([]string, 0, most+1)
	for _, p := range e.Paths[:min(len(e.Paths), most)] {
		if name, is := segno.DatabaseName(p); is {
			shown = append(shown, "the database "+segno.QuotePath(name))
		} else {
			shown = append(shown, segno.QuotePath(p))
		}
	}
	if rest := len(e.Paths) - most; rest > 0 {
		shown = append(shown, strconv.Itoa(rest)+" more")
	}
	return "files of another machine could run programs, contain credentials or lead elsewhere: " + strings.Join(shown, ", ")
}

// RefuseUntrusted returns the error for paths that a thread brought from another machine and that a verb would write.
func RefuseUntrusted(verb string, thread segno.ThreadID, paths []string) *segno.Error {
	return segno.NewError(segno.KindRefused, verb, string(thread), &UntrustedError{paths}).
		WithHint("run 'segno pull " + string(thread) + " --trust' if you trust every machine that wrote the thread")
}

// CheckFork returns the error with which [Timeline.Fork] refuses a checkpoint because of files or databases that the user has
// not trusted, or nil. Programs that copy a checkpoint in another way call it first.
func (tl *Timeline) CheckFork(ctx context.Context, verb segno.Verb, x *segno.Checkpoint) error {
	return tl.unlocked().refuseUntrustedFork(ctx, verb, x)
}

// CheckFiles is [Timeline.CheckFork] for a copy without attached databases.
func (tl *Timeline) CheckFiles(ctx context.Context, verb segno.Verb, x *segno.Checkpoint) error {
	return tl.unlocked().refuseUntrustedCopy(ctx, verb, x, nil)
}

// refuseUntrustedFork refuses to make a directory with the untrusted files of a checkpoint, and databases with its untrusted
// states.
func (tx *txn) refuseUntrustedFork(ctx context.Context, verb segno.Verb, x *segno.Checkpoint) error {
	var saved []segno.Change
	if ws, ok := tx.Workspace.(databases); ok && x.Workspace != nil && tx.Untrusted != nil {
		var err error
		if saved, err = ws.SavedDatabases(ctx, x.Workspace.World); err != nil {
			return err
		}
	}
	return tx.refuseUntrustedCopy(ctx, verb, x, saved)
}

// refuseUntrustedCopy refuses to write the untrusted files of a checkpoint into a new directory, and further changes. A new
// directory never has the bits setuid and setgid of a snapshot.
func (tx *txn) refuseUntrustedCopy(ctx context.Context, verb segno.Verb, x *segno.Checkpoint, more []segno.Change) error {
	if tx.Untrusted == nil || x.Workspace == nil {
		return nil
	}
	if all, err := tx.Untrusted(ctx); err != nil || len(all) == 0 {
		return err
	}
	files, err := tx.diff(ctx, segno.Hash{}, x.Tree())
	if err != nil {
		return err
	}
	for i := range files {
		files[i].To.Mode &^= SetIDs
	}
	line := func() ([]segno.CommitID, error) { return []segno.CommitID{x.ID}, nil }
	return tx.refuseUntrusted(ctx, verb, append(files, more...), line)
}

// VisitPoints calls visit for each state of a file that the points of a checkpoint contain; see [Timeline.AtPoint].
func VisitPoints(ctx context.Context, o segno.Objects, c *segno.Checkpoint, visit func(path string, e segno.Entity)) error {
	all, err := readSavedCalls(ctx, o, c)
	if err != nil {
		return err
	}
	for _, call := range all.Calls {
		for _, f := range call.Files {
			visit(string(f.Path), f.Entity)
		}
	}
	return nil
}
