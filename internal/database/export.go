package database

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/dalsegno/segno"
)

// Export is the saved state of a database as a file that other programs can read.
type Export struct {
	Name string // name of the attachment; for a SQLite database in the workspace, its path
	// Format is "sqlite3" for the file of a database, or "postgres-sql" for statements for psql.
	Format string
	Size   int64
	// Write writes the file, which has Size bytes.
	Write func(w io.Writer) error
}

// IsFile reports whether the database is a file of the workspace.
func (e Export) IsFile() bool { return e.Format == "sqlite3" && filepath.IsLocal(e.Name) }

// Exports returns the databases that a document of a snapshot contains, sorted by name. It leaves out databases that
// did not exist or could not be read.
func Exports(ctx context.Context, objects segno.Objects, d *segno.Document) (all []Export, err error) {
	doc, err := readDocument(ctx, objects, d)
	if err != nil {
		return nil, err
	}
	for _, s := range doc.Databases {
		if s.entity().Type != segno.EntityDatabase {
			continue
		}
		e := Export{Name: s.Name, Format: "sqlite3", Size: int64(s.Pages) * int64(s.PageSize)}
		state, err := readPgState(ctx, objects, s.Content)
		if err != nil {
			return nil, err
		}
		e.Write = func(w io.Writer) error {
			pages, err := readPages(ctx, objects, s.Content)
			if err != nil {
				return err
			}
			return writePages(ctx, objects, w, pages)
		}
		if state != nil {
			e.Format = "postgres-sql"
			e.Write = func(w io.Writer) error { return state.writeSQL(ctx, objects, w) }
			var n counter
			if err := e.Write(&n); err != nil {
				return nil, err
			}
			e.Size = int64(n)
		}
		all = append(all, e)
	}
	return all, nil
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// writePages writes the file of a SQLite database. The file has SQLite's default journal mode, because there is no log
// beside it.
func writePages(ctx context.Context, objects getter, w io.Writer, pages pageList) error {
	for i, h := range pages {
		page, err := objects.Get(ctx, h)
		if err != nil {
			return segno.NewError(segno.KindCorrupt, "restore database", h.String(), err)
		}
		if i == 0 && len(page) >= 100 {
			page[18], page[19] = 1, 1
		}
		if _, err := w.Write(page); err != nil {
			return err
		}
	}
	return nil
}

// writeSQL writes the state as statements for psql, in one transaction.
func (p *pgState) writeSQL(ctx context.Context, objects getter, w io.Writer) error {
	var err error // the first one; nothing is written after it
	part := func(name segno.Hash) {
		if err != nil || name.IsZero() {
			return
		}
		var r io.Reader
		if r, err = newChunkReader(ctx, objects, name); err == nil {
			_, err = io.Copy(w, r)
		}
	}
	text := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format, args...)
		}
	}
	statements := func(name segno.Hash) {
		if err == nil {
			var script string
			script, err = readStatements(ctx, objects, name)
			text("%s", script)
		}
	}
	text("\\set ON_ERROR_STOP on\nBEGIN;\nSET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO, MDY'; SET LOCAL intervalstyle = 'postgres';\n")
	statements(p.Before)
	for _, t := range p.Tables {
		text("COPY %s%s FROM stdin;\n", t.Name, t.columnList())
		part(t.Content)
		text("\\.\n")
	}
	for _, q := range p.Sequences {
		text("%s;\n", q.statement())
	}
	if !p.Large.IsZero() {
		text("%s;\nCOPY pg_temp.segno_large FROM stdin;\n", createLarge)
		part(p.Large)
		text("\\.\n%s;\n", writeLarge)
	}
	statements(p.After)
	text("COMMIT;\n")
	return err
}
