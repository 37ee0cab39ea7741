package pack

import (
	"context"
	"io"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/database"
)

// databases returns the attached databases of a snapshot's workspace.
func (b *builder) databases(ctx context.Context, s segno.Snapshot) ([]database.Export, error) {
	all, err := database.Exports(ctx, b.store.Objects(), s.World)
	return all, missingIsCorrupt(err)
}

// addDatabase adds a database that is a file of the workspace. The tree has only its name.
func (l *lister) addDatabase(name string) bool {
	i := slices.IndexFunc(l.databases, func(e database.Export) bool { return e.IsFile() && e.Name == name })
	if i < 0 {
		return false
	}
	l.agent.Workspace = append(l.agent.Workspace, archive.File{Path: name, Size: l.databases[i].Size, Open: openExport(l.databases[i])})
	return true
}

// addDatabases handles the databases that are not files of the workspace. If there is only one, and the checkpoint has
// no other world, it becomes the document of the world. Otherwise each of them is listed as left out, except with
// --workspace-only.
func (b *builder) addDatabases(ctx context.Context, agent string, s segno.Snapshot) error {
	all, err := b.databases(ctx, s)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, database.Export.IsFile)
	if len(all) == 1 && b.state.World == nil && !b.options.WorkspaceOnly {
		e := all[0]
		b.state.World = &archive.WorldState{Info: archive.WorldInfo{Format: e.Format}, Document: archive.File{Path: "world.snapshot", Size: e.Size, Open: openExport(e)}}
		return nil
	}
	for _, e := range all {
		b.omit("agents/"+agent+"/databases/"+e.Name, OmittedDatabase)
	}
	return nil
}

func openExport(e database.Export) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() { w.CloseWithError(e.Write(w)) }()
		return r, nil
	}
}
