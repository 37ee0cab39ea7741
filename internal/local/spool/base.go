package spool

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

func (d *Dir) baseFile(id segno.WorkspaceID) string {
	return d.file("bases", "base", string(id), ".json")
}

// KeepBase saves a base durably. It replaces an older base of the workspace.
func (d *Dir) KeepBase(_ context.Context, b timeline.Base) (err error) {
	defer annotate(&err, "keep first snapshot")
	return d.keep(d.baseFile(b.Snapshot.Workspace), b)
}

// Base returns the base of a workspace, or nil.
func (d *Dir) Base(_ context.Context, id segno.WorkspaceID) (b *timeline.Base, err error) {
	defer annotate(&err, "read first snapshot")
	data, err := d.readFile(d.baseFile(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	return b, err
}

// Bases returns the bases of all workspaces.
func (d *Dir) Bases(ctx context.Context) (all []timeline.Base, err error) {
	defer annotate(&err, "list first snapshots")
	err = readAll(d, "bases", func(b timeline.Base) { all = append(all, b) })
	return all, errors.Join(err, ctx.Err())
}

// RemoveBase durably removes the base of a workspace, if there is one.
func (d *Dir) RemoveBase(id segno.WorkspaceID) error { return d.remove(d.baseFile(id)) }
