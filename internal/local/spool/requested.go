package spool

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

func (d *Dir) requestedFile(q timeline.Requested) string {
	return d.file("requested", "requested", string(q.Workspace)+" "+string(q.Thread), ".json")
}

// KeepRequested saves a requested move durably. It replaces another one of the thread in the workspace.
func (d *Dir) KeepRequested(_ context.Context, q timeline.Requested) error {
	return d.keep(d.requestedFile(q), q)
}

// ListRequested returns the requested moves of a workspace.
func (d *Dir) ListRequested(ctx context.Context, id segno.WorkspaceID) (all []timeline.Requested, err error) {
	defer annotate(&err, "list requested moves")
	err = readAll(d, "requested", func(q timeline.Requested) {
		if q.Workspace == id {
			all = append(all, q)
		}
	})
	return all, errors.Join(err, ctx.Err())
}

// ClearRequested durably removes the requested move of a thread, if there is one.
func (d *Dir) ClearRequested(_ context.Context, q timeline.Requested) error {
	return d.remove(d.requestedFile(q))
}
