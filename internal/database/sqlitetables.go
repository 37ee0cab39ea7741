package database

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// maxTablesBytes is the largest size of a SQLite database whose tables are compared.
const maxTablesBytes = 32 << 20

// tableState is the content of a table.
type tableState struct {
	rows int64
	hash segno.Hash
}

// diffSQLiteTables returns the tables that differ between the states of a change. It returns none if one of the states
// is large or cannot be read as a database. The caller then shows only the number of pages.
func diffSQLiteTables(ctx context.Context, objects getter, c segno.Change) (changes []segno.TableChange, err error) {
	if max(c.From.Size, c.To.Size) > maxTablesBytes {
		return nil, nil
	}
	before, err := sqliteTables(ctx, objects, c.From.Hash)
	if err != nil || before == nil {
		return nil, err
	}
	after, err := sqliteTables(ctx, objects, c.To.Hash)
	if err != nil || after == nil {
		return nil, err
	}
	rows := func(all map[string]tableState, name string) int64 {
		if t, ok := all[name]; ok {
			return t.rows
		}
		return -1
	}
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was, is := before[name], after[name]; was != is || rows(before, name) != rows(after, name) {
			changes = append(changes, segno.TableChange{Name: name, Before: rows(before, name), After: rows(after, name)})
		}
	}
	return changes, nil
}

// sqliteTables reads the tables of a saved state in memory. They are nil if that is impossible.
func sqliteTables(ctx context.Context, objects getter, content segno.Hash) (map[string]tableState, error) {
	tables := map[string]tableState{}
	pages, err := readPages(ctx, objects, content)
	if err != nil || len(pages) == 0 {
		return tables, err
	}
	var file bytes.Buffer
	err = writePages(ctx, objects, &file, pages)
	if err == nil {
		err = readTables(ctx, file.Bytes(), tables)
	}
	switch {
	case ctx.Err() != nil:
		return nil, segno.NewError(segno.KindCancelled, "read database", content.String(), ctx.Err())
	case err != nil: // the store may lack pages of the present state, and an agent may have written invalid pages
		return nil, nil
	}
	return tables, nil
}

// readTables adds the ordinary tables of a database to tables.
func readTables(ctx context.Context, file []byte, tables map[string]tableState) (err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	err = conn.Raw(func(driver any) error {
		c, ok := driver.(interface{ Deserialize([]byte) error })
		if !ok {
			return errors.New("the driver cannot read a database in memory")
		}
		return c.Deserialize(file)
	})
	if err != nil {
		return err
	}
	rows, err := conn.QueryContext(ctx, "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' AND sql NOT LIKE 'CREATE VIRTUAL%'")
	if err != nil {
		return err
	}
	statements := map[string]string{}
	for rows.Next() {
		var name, statement string
		if err := rows.Scan(&name, &statement); err != nil {
			return errors.Join(err, rows.Close())
		}
		statements[name] = statement
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for name, statement := range statements {
		if tables[name], err = readTable(ctx, conn, name, statement); err != nil {
			return err
		}
	}
	return nil
}

// readTable returns the number of rows of a table and a hash of it.
func readTable(ctx context.Context, conn *sql.Conn, name, statement string) (t tableState, err error) {
	rows, err := conn.QueryContext(ctx, `SELECT * FROM "`+strings.ReplaceAll(name, `"`, `""`)+`"`)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return t, err
	}
	values, targets := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q", statement)
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return t, err
		}
		fmt.Fprintf(h, "%#v\n", values)
		t.rows++
	}
	t.hash = segno.Hash(h.Sum(nil))
	return t, rows.Err()
}
