package local

import (
	"context"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/database"
)

// databasesDir is the directory of the lists of attached databases.
const databasesDir = "databases"

// Databases returns the databases that are attached to a workspace, sorted by name.
func (s *Store) Databases(id segno.WorkspaceID) ([]database.Attachment, error) {
	return s.databaseList(id).Read()
}

// SetDatabases replaces the databases that are attached to a workspace. Open timelines use the new list immediately.
func (s *Store) SetDatabases(id segno.WorkspaceID, all []database.Attachment) error {
	return s.databaseList(id).Write(all)
}

func (s *Store) databaseList(id segno.WorkspaceID) database.List {
	return database.List{FS: s.place.fs(), Sealer: s,
		File: filepath.Join(s.place.Store, databasesDir, segno.DerivedID("databases", string(id)))}
}

// databaseFiles returns the function that lists the files of the databases of a workspace. The function ignores an
// unreadable list, because the snapshot reads the list first and returns the error.
func (s *Store) databaseFiles(rec segno.WorkspaceRecord) func() (databases, beside []string) {
	return func() (databases, beside []string) {
		all, err := s.Databases(rec.ID)
		if err != nil {
			return nil, nil
		}
		return database.Files(rec.Path, all)
	}
}

func (s *Store) withDatabases(w segno.Workspace) *database.Attached {
	return database.Attach(w, s.databaseOptions(w.ID()))
}

func (s *Store) databaseOptions(id segno.WorkspaceID) database.Options {
	cache := filepath.Join(s.place.Store, "index", segno.DerivedID("databases", string(id)))
	return database.Options{Objects: s.Objects(), FS: s.place.fs(), Now: s.place.Now, Postgres: s.place.Postgres,
		Lock: func(ctx context.Context, file string) (func(), error) {
			return s.Spool().Lock(ctx, segno.WorkspaceID(segno.DerivedID("database", file)))
		},
		List:  func() ([]database.Attachment, error) { return s.Databases(id) },
		Cache: database.Cache{FS: s.place.fs(), File: cache, Sealer: s}}
}

// TryDatabase calls [database.Try] for a workspace.
func (s *Store) TryDatabase(ctx context.Context, op string, rec segno.WorkspaceRecord, at database.Attachment) error {
	return database.Try(ctx, op, rec.Path, at, s.databaseOptions(rec.ID))
}

// registerFork returns the function that registers the directory of a fork. It attaches the copies of the source's
// databases to the fork.
func (s *Store) registerFork(from *database.Attached) func(context.Context, string) (segno.WorkspaceRecord, error) {
	return func(ctx context.Context, dir string) (segno.WorkspaceRecord, error) {
		rec, err := s.Register(ctx, dir)
		if err != nil || rec.ID == from.ID() || len(from.Copies()) == 0 {
			return rec, err
		}
		return rec, s.SetDatabases(rec.ID, from.Copies())
	}
}
