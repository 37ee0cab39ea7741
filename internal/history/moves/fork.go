package moves

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/timeline"
)

// fork makes a thread from a checkpoint of another thread.
type fork struct {
	*target
	request Request
	from    *segno.Checkpoint
	dir     string // "" makes a thread on the same files
}

func (f *fork) describe(ctx context.Context, p *Preview) (err error) {
	at := f.request.To
	if at == "" {
		at = f.head.Head
	}
	if f.from, err = f.ownCheckpoint(ctx, at); err != nil {
		return err
	}
	if err := f.refuseDeleted(ctx, f.from); err != nil && f.root != "" {
		return err
	}
	p.Landing, p.Tip = f.from.ID, f.from.ID
	if f.root == "" || f.request.Scope == timeline.ScopeChat {
		if f.request.Dir != "" {
			return segno.Errorf(segno.KindRefused, verbFork, f.request.Dir, "there are no files to put there").
				WithHint("fork without a directory, or on the machine that has the workspace")
		}
		p.Summary = []string{fmt.Sprintf("fork %s of thread %s, on the same files", printable.Label(f.from), printable.Short(f.head.Thread))}
		return nil
	}
	if f.from.Workspace == nil {
		return segno.Errorf(segno.KindNotFound, verbFork, string(f.from.ID), "the checkpoint has no files").
			WithHint("fork at a turn with files, or the conversation alone")
	}
	if f.dir, err = f.directory(); err == nil {
		err = f.timeline.CheckFork(ctx, segno.VerbFork, f.from)
	}
	if err != nil {
		return err
	}
	p.Dir = f.dir
	p.Summary = []string{ForkText(f.from, f.root, f.dir)}
	return nil
}

// maxForkNames limits the names that are tried for the directory of a fork.
const maxForkNames = 1000

// directory returns the new directory of a fork. If the request names none, it is an unused name beside the workspace.
func (f *fork) directory() (string, error) {
	taken := func(dir string) bool {
		_, err := os.Lstat(dir)
		return !errors.Is(err, fs.ErrNotExist)
	}
	if f.request.Dir != "" {
		return ForkDir(f.root, f.request.Dir)
	}
	base := f.root + "-" + printable.Label(f.from)
	dir := base
	for n := 2; taken(dir); n++ {
		if n > maxForkNames {
			return "", segno.Errorf(segno.KindConflict, verbFork, segno.QuotePath(base), "already exists").WithHint("choose a new directory")
		}
		dir = fmt.Sprintf("%s-%d", base, n)
	}
	return dir, nil
}

// ForkDir returns the directory that a fork of the workspace at root makes. It returns an error if the fork cannot make
// dir.
func ForkDir(root, dir string) (string, error) {
	rel, err := filepath.Rel(root, dir)
	switch {
	case !filepath.IsAbs(dir):
		return "", segno.Errorf(segno.KindInvalid, verbFork, segno.QuotePath(dir), "the directory is not absolute")
	case err == nil && filepath.IsLocal(rel):
		return "", segno.Errorf(segno.KindRefused, verbFork, segno.QuotePath(dir), "it is inside the workspace").WithHint("choose a directory beside it")
	}
	_, err = os.Lstat(filepath.Clean(dir))
	if err == nil {
		return "", segno.Errorf(segno.KindConflict, verbFork, segno.QuotePath(dir), "already exists").WithHint("choose a new directory")
	}
	if cause := (*fs.PathError)(nil); !errors.Is(err, fs.ErrNotExist) && errors.As(err, &cause) { // such as a name that is too long
		return "", segno.NewError(segno.KindInvalid, verbFork, segno.QuotePath(dir), cause.Err).WithHint("choose another directory")
	}
	return filepath.Clean(dir), nil
}

// ForkText describes a fork. A checkpoint of a session that was only kept has no files, and the fork gets the present ones.
func ForkText(from *segno.Checkpoint, root, dir string) string {
	files := "the present files"
	if from.Workspace != nil {
		files = printable.Plural(from.Workspace.Files, "file")
	}
	return fmt.Sprintf("fork %s of %s into %s (%s)", printable.Label(from), segno.QuotePath(root), segno.QuotePath(dir), files)
}

func (f *fork) apply(ctx context.Context, id segno.OperationID, _ bool, o *Outcome) error {
	if f.root == "" {
		as := segno.Thread{ID: segno.ThreadID(segno.DerivedID("fork", string(id))), Created: f.Now(), Title: f.request.Title, Agent: f.thread.Agent}
		if as.Title == "" {
			as.Title = f.thread.Title
		}
		head, err := f.timeline.ForkThread(ctx, f.from.ID, as, false)
		o.Fork = &ForkedThread{Thread: head.Thread}
		o.Undo = &Request{Verb: verbDelete, Thread: head.Thread}
		return err
	}
	ask := timeline.MoveRequest{Verb: segno.VerbFork, To: f.from.ID, Name: printable.Label(f.from), Dir: f.dir, Title: f.request.Title, Operation: id}
	made, err := f.timeline.Fork(ctx, ask)
	if err != nil {
		return err
	}
	o.Operation, o.Chat, o.Dir = id, made.Chat, made.Dir
	o.Fork = &ForkedThread{Thread: made.Thread, Dir: made.Report.Root}
	if o.Run = append(o.Run, made.Run...); len(o.Run) == 0 && f.from.Session == nil {
		o.Run = append(o.Run, f.OwnAgent.Command(segno.Thread{ID: made.Thread, Agent: f.thread.Agent})...)
	}
	o.Files = made.Report.Files
	if o.Conflicts, err = UnwrittenPaths(ctx, nil, made.Report.Unsaved, nil); err != nil {
		return err
	}
	o.Undo = &Request{Verb: verbOpUndo, Thread: f.head.Thread, Operation: id}
	return nil
}
