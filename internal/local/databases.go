package local

import (
	"context"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/database"
)

// databasesDir is the directory of the lists of attached databases.
const databasesDir = "databases"

// Databases returns the databases that are attached to a workspace.
func (s *Store) Databases(id segno.WorkspaceID) ([]database.Attachment, error) {
	return s.databaseList(id).Read()
}

// SetDatabases replaces the databases that are attached to a workspace. Timelines that are open keep those
// they were opened with.
func (s *Store) SetDatabases(id segno.WorkspaceID, all []database.Attachment) error {
	return s.databaseList(id).Write(all)
}

func (s *Store) databaseList(id segno.WorkspaceID) database.List {
	return database.List{FS: s.place.fs(), Sealer: s,
		File: filepath.Join(s.place.Store, databasesDir, segno.DerivedID("databases", string(id)))}
}

// withDatabases adds databases to a workspace. Without any, it is the workspace itself.
func (s *Store) withDatabases(w segno.Workspace, attached []database.Attachment) segno.Workspace {
	if len(attached) == 0 {
		return w
	}
	cache := filepath.Join(s.place.Store, "index", segno.DerivedID("databases", string(w.ID())))
	return database.Attach(w, database.Options{Objects: s.Objects(), Databases: attached, FS: s.place.fs(), Now: s.place.Now,
		Cache: database.Cache{FS: s.place.fs(), File: cache, Sealer: s}})
}

// registerFork returns the function that registers the directory of a fork. The copies of the databases of
// the source are attached to it.
func (s *Store) registerFork(attached []database.Attachment) func(context.Context, string) (segno.WorkspaceRecord, error) {
	return func(ctx context.Context, dir string) (segno.WorkspaceRecord, error) {
		rec, err := s.Register(ctx, dir)
		if err != nil || len(attached) == 0 {
			return rec, err
		}
		there, err := s.Databases(rec.ID)
		if err != nil || len(there) > 0 { // a fork in the same directory
			return rec, err
		}
		for _, a := range attached {
			there = append(there, a.InFork(rec.Path))
		}
		return rec, s.SetDatabases(rec.ID, there)
	}
}
