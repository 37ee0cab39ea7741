package database

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
)

// rootOnly is a workspace that implements only Root.
type rootOnly struct {
	segno.Workspace
	root string
}

func (w rootOnly) Root() string { return w.root }

// Try returns an error unless the database of the workspace at root can be saved. It reads the whole database and
// stores nothing. op is the operation in the error. If the reason is a missing right, the error's hint names it.
func Try(ctx context.Context, op, root string, at Attachment, o Options) error {
	s, err := Attach(rootOnly{root: root}, o).saveOne(ctx, discard{}, at, cacheEntries{})
	if err != nil {
		return err
	}
	var rights *rightsError
	switch {
	case s.Unread == "":
		return nil
	case isBusy(s.failure):
		return segno.Errorf(segno.KindBusy, op, at.Name, "%s", s.Unread).WithHint("wait for the end of its transaction, or end the program")
	case errors.As(s.failure, &rights):
		return segno.NewError(segno.KindRefused, op, at.Name, rights).WithHint(rights.hint)
	}
	return segno.Errorf(segno.KindIO, op, at.Name, "%s", s.Unread).WithHint("make the database readable, or detach it with 'segno world detach'")
}
