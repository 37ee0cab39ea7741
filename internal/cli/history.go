package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// History reads the history of the thread that the command works on.
func (a *App) History(ctx context.Context, d *Workspace) (*history.History, error) {
	thread, err := a.ThreadID(ctx, d)
	if err != nil {
		return nil, err
	}
	return history.Read(ctx, d.Store, thread)
}

// CheckpointNamed returns the checkpoint that a verb's argument names, and the thread's history.
func (a *App) CheckpointNamed(ctx context.Context, d *Workspace, name string) (*history.History, *segno.Checkpoint, error) {
	h, err := a.History(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	c, err := h.Find(name)
	return h, c, err
}

// GitTrailer is the key of the trailer by which the message of a git commit names a checkpoint.
const GitTrailer = "Segno-Checkpoint"

// CheckpointOrRevision is CheckpointNamed for a verb that only reads. If no checkpoint has the name, it can be a revision of the
// git repository of the directory. The trailer of that commit names the checkpoint, which can be in any thread of the store. Within
// [App.Run] it must be one of the directory: anybody can write a commit, and the caller may be an agent.
func (a *App) CheckpointOrRevision(ctx context.Context, d *Workspace, name string) (*history.History, *segno.Checkpoint, error) {
	h, c, err := a.CheckpointNamed(ctx, d, name)
	if segno.KindOf(err) != segno.KindNotFound {
		return h, c, err
	}
	repo := workspace.OpenGit(d.Rec.Path)
	if repo == nil {
		return nil, nil, err
	}
	defer repo.Close()
	commit, gitErr := repo.Commit(name)
	if segno.KindOf(gitErr) == segno.KindNotFound {
		return nil, nil, err
	}
	if gitErr != nil {
		return nil, nil, gitErr
	}
	id := commit.Trailer(GitTrailer)
	if id == "" {
		return nil, nil, segno.Errorf(segno.KindNotFound, "find checkpoint", name, "the commit has no trailer %s", GitTrailer).
			WithHint("'segno git-trailer' prints one for the message of a commit")
	}
	if c, err = history.Checkpoint(ctx, d.Store, segno.CommitID(id)); err != nil {
		return nil, nil, err
	}
	if c == nil || a.capture != nil && !isOf(d, h, c) {
		return nil, nil, segno.NewError(segno.KindNotFound, "find checkpoint", id, nil)
	}
	h, err = history.Read(ctx, d.Store, c.Thread)
	return h, c, err
}

// isOf reports whether a checkpoint is in a history of the directory, or has its files.
func isOf(d *Workspace, h *history.History, c *segno.Checkpoint) bool {
	return h != nil && h.ByID[c.ID] != nil || c.Workspace != nil && c.Workspace.Workspace == d.Rec.ID
}

// FilesNamed is [App.CheckpointNamed] for a verb that needs only the files of a checkpoint: the name may also be a point inside
// a turn, such as t7.3. point is nil for a checkpoint. For a point, c is the checkpoint of its turn with the files of the point.
func (a *App) FilesNamed(ctx context.Context, d *Workspace, name string) (h *history.History, c *segno.Checkpoint, point *timeline.Point, err error) {
	h, c, err = a.CheckpointNamed(ctx, d, name)
	var inside *history.PointError
	if !errors.As(err, &inside) {
		return h, c, nil, err
	}
	c, p, err := d.Timeline.AtPoint(ctx, inside.Turn, inside.Call)
	return h, c, &p, err
}

// Label returns the name of a checkpoint in text: "t4" for a turn, else its short id.
func Label(c *segno.Checkpoint) string { return printable.Label(c) }

// Short shortens an id that segno made to its first letters. It returns a name that the user chose
// unchanged.
func Short[ID ~string](id ID) string { return printable.Short(id) }

// NotByATurn labels a change outside turns: the user or any program changed the files.
const NotByATurn = "(not by a turn)"

// Subject is the description of a checkpoint in its line of the log.
func Subject(c *segno.Checkpoint) string {
	what := c.Prompt
	switch c.Kind {
	case segno.CheckpointStep:
		what = fmt.Sprintf("%s (t%d, step %d)", Quote(timeline.Title(c.Prompt)), c.Turn, c.Step)
	case segno.CheckpointTurn:
		what = Quote(timeline.Title(c.Prompt))
	case segno.CheckpointBase:
		what = "(the beginning)"
		if c.Parent != "" {
			what = "(fork)"
		}
	case segno.CheckpointExternal:
		what = NotByATurn
	case segno.CheckpointSave:
		what = "(saved)"
	}
	if c.Label != "" && c.Kind != segno.CheckpointTurn {
		what = "(" + Inline(c.Label) + ")"
	}
	return what
}
