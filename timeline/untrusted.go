package timeline

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// Untrusted has what a thread brought from another machine and the user has not trusted: files that run programs, contain
// credentials or lead elsewhere, in any of its checkpoints. No move writes them: see [Config.Untrusted].
type Untrusted struct {
	Thread segno.ThreadID  `json:"thread"` // the thread that brought them
	Files  []UntrustedFile `json:"files,omitempty"`
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
// some out would record them as deleted.
func (tx *txn) refuseUntrusted(ctx context.Context, verb segno.Verb, steps []segno.Change) error {
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
	var found []string
	var from segno.ThreadID
	for _, u := range all {
		for i := range u.Files {
			f := &u.Files[i]
			if step := byPath[string(f.Path)]; step != nil && f.covers(step.To, step.Merged) {
				found, from = append(found, string(f.Path)), u.Thread
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return RefuseUntrusted(string(verb), from, slices.Compact(found))
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

// refuseUntrustedTree refuses to make a directory with untrusted files of a snapshot. A new directory never has the bits setuid
// and setgid of a snapshot.
func (tx *txn) refuseUntrustedTree(ctx context.Context, verb segno.Verb, tree segno.Hash) error {
	if tx.Untrusted == nil {
		return nil
	}
	if all, err := tx.Untrusted(ctx); err != nil || len(all) == 0 {
		return err
	}
	files, err := tx.diff(ctx, segno.Hash{}, tree)
	if err != nil {
		return err
	}
	for i := range files {
		files[i].To.Mode &^= SetIDs
	}
	return tx.refuseUntrusted(ctx, verb, files)
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
