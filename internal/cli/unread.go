package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

// unreadDatabases returns the attached databases that a checkpoint lacks.
func unreadDatabases(ctx context.Context, d *openWorkspace, c *segno.Checkpoint) ([]history.UnreadDatabase, error) {
	unread, err := d.timeline.UnreadDatabases(ctx, c.Workspace)
	return history.UnreadDatabases(unread), err
}

// withUnread returns errSilent if a command succeeded but databases are not saved. The printed result already lists
// them, so only the exit code is missing.
func withUnread(err error, unread []history.UnreadDatabase) error {
	if err == nil && len(unread) > 0 {
		return errSilent
	}
	return err
}

// unreadDatabases lists databases that are not saved.
func (p *printer) unreadDatabases(unread []history.UnreadDatabase) {
	for _, u := range unread {
		p.linef("  %s %s", p.warn("not saved:"), u)
	}
}

// compare sets whether a database changed since the head, or cannot be read.
func (i *attachedItem) compare(changes []segno.Change, unread []segno.Conflict) {
	path := segno.DatabasePath(i.Name)
	i.Changed = slices.ContainsFunc(changes, func(c segno.Change) bool { return c.Path == path })
	if at := slices.IndexFunc(unread, func(u segno.Conflict) bool { return u.Path == path }); at >= 0 {
		i.Unread = unread[at].Why
	}
}

// reasonOf returns the text of an error without its operation and name.
func reasonOf(err error) string {
	var e *segno.Error
	if errors.As(err, &e) && e.Err != nil {
		err = e.Err
	}
	return err.Error()
}
