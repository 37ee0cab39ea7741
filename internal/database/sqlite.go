package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"

	_ "modernc.org/sqlite" // the driver

	"github.com/dalsegno/segno"
)

// KindSQLite is the kind of a SQLite database.
const KindSQLite = "sqlite"

// busyMillis is how long a connection waits for the lock of another program.
const busyMillis = 2000

// openSQLite returns one connection to the database in a file. mode is that of SQLite's URI: "ro", "rw" or "immutable".
// For an immutable database, SQLite uses no locks and makes no files beside it.
func openSQLite(ctx context.Context, path, mode string) (*sql.DB, *sql.Conn, error) {
	query := url.Values{"mode": {mode}, "_busy_timeout": {fmt.Sprint(busyMillis)}, "_synchronous": {"FULL"}}
	if mode == "immutable" {
		query.Set("mode", "ro")
		query.Set("immutable", "1")
	}
	name := url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, conn, nil
}

// eachPage calls visit with the pages of the database that conn has open, in order. It clears the bytes that are not
// part of the content. visit must not retain the page.
func eachPage(ctx context.Context, conn *sql.Conn, visit func(page []byte) error) (err error) {
	rows, err := conn.QueryContext(ctx, "SELECT pgno, data FROM sqlite_dbpage ORDER BY pgno")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var number int
		var page sql.RawBytes
		if err := rows.Scan(&number, &page); err != nil {
			return err
		}
		if number == 1 {
			page = append(sql.RawBytes{}, page...)
			clearHeader(page)
		}
		if err := visit(page); err != nil {
			return err
		}
	}
	return rows.Err()
}

// clearHeader clears the bytes of the first page that are not part of the content: the write and
// read versions (the journal mode), the change counter, and the counter and the version of the last
// writer.
func clearHeader(page []byte) {
	for _, r := range headerRanges() {
		clear(page[r[0]:r[1]])
	}
}

func headerRanges() [][2]int { return [][2]int{{18, 20}, {24, 28}, {92, 100}} }

// readSQLite saves the present content of a database while other programs may write. If locked is set, the result is
// the content after a committed transaction. Otherwise this is certain only if the fingerprint stays the same.
func readSQLite(ctx context.Context, path string, w *pageWriter, locked bool) (pageSize int, err error) {
	mode := "ro"
	if !locked {
		mode = "immutable"
	} else if exists(path + "-journal") {
		if err := recoverSQLite(ctx, path); err != nil {
			return 0, err
		}
	}
	db, conn, err := openSQLite(ctx, path, mode)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(), db.Close()) }()
	err = eachPage(ctx, conn, func(page []byte) error {
		pageSize = len(page)
		return w.add(ctx, page)
	})
	return pageSize, err
}

// recoverSQLite rolls back the transaction of a killed program, as any program does that opens the database. A
// read-only connection cannot do this.
func recoverSQLite(ctx context.Context, path string) (err error) {
	db, conn, err := openSQLite(ctx, path, "rw")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(), db.Close()) }()
	var n int
	return conn.QueryRowContext(ctx, "PRAGMA page_count").Scan(&n)
}

// isWAL reports whether the header of a database has the journal mode WAL.
func isWAL(path string) bool {
	header, err := readPart(path, 20)
	return err == nil && len(header) == 20 && header[18] == 2
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// checkSQLite returns an error unless the file at path is a SQLite database. An empty file is one.
func checkSQLite(path string) error {
	header, err := readPart(path, 16)
	if err != nil {
		return segno.NewError(segno.KindNotFound, "attach database", path, err).WithHint("name the file of a SQLite database")
	}
	if len(header) > 0 && string(header) != "SQLite format 3\x00" {
		return segno.Errorf(segno.KindInvalid, "attach database", path, "not a SQLite database").WithHint("name the file of a SQLite database")
	}
	return nil
}
