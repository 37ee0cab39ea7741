package cli

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/printable"
)

// history reads the history of the thread that the command works on.
func (a *app) history(ctx context.Context, d *openWorkspace) (*history.History, error) {
	thread, err := a.threadID(ctx, d)
	if err != nil {
		return nil, err
	}
	return history.Read(ctx, d.store, thread)
}

// checkpointNamed returns the checkpoint that a verb's argument names, and the thread's history.
func (a *app) checkpointNamed(ctx context.Context, d *openWorkspace, name string) (*history.History, *segno.Checkpoint, error) {
	h, err := a.history(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	c, err := h.Find(name)
	return h, c, err
}

// label returns the name of a checkpoint in text: "t4" for a turn, else its short id.
func label(c *segno.Checkpoint) string { return printable.Label(c) }

// short shortens an id that segno made to its first letters. It returns a name that the user chose
// unchanged.
func short[ID ~string](id ID) string { return printable.Short(id) }
