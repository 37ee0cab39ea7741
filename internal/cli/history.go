package cli

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/timeline"
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
