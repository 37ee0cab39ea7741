package cli

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

// UnreadDatabases returns the attached databases that a checkpoint lacks.
func UnreadDatabases(ctx context.Context, d *Workspace, c *segno.Checkpoint) ([]history.UnreadDatabase, error) {
	unread, err := d.Timeline.UnreadDatabases(ctx, c.Workspace)
	return history.UnreadDatabases(unread), err
}

// WithUnread returns ErrSilent if a command succeeded but databases are not saved. The printed result already lists
// them, so only the exit code is missing.
func WithUnread(err error, unread []history.UnreadDatabase) error {
	if err == nil && len(unread) > 0 {
		return ErrSilent
	}
	return err
}

// UnreadDatabases lists databases that are not saved.
func (p *Printer) UnreadDatabases(unread []history.UnreadDatabase) {
	for _, u := range unread {
		p.Linef("  %s %s", p.Warn("not saved:"), u)
	}
}

// ReasonOf returns the text of an error without its operation and name.
func ReasonOf(err error) string {
	var e *segno.Error
	if errors.As(err, &e) && e.Err != nil {
		err = e.Err
	}
	return err.Error()
}
