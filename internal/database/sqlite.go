package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
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

// access is how the content of a database is read.
type access int

const (
	// accessLocked holds a read lock of SQLite. The content is that after a committed transaction.
	accessLocked access = iota
	// accessImmutable takes no lock and makes no file beside the database, which has no log. The content is one state only
	// if the fingerprint stays the same.
	accessImmutable
	// accessLog reads the file and the log without SQLite. The content is one state only if the fingerprint stays the same.
	accessLog
)

// readSQLite saves the present content of a database while other programs may write. last is the state that the store
// has, or the zero value.
func readSQLite(ctx context.Context, path string, w *pageWriter, last cacheEntry, how access) (sums *groupSums, err error) {
	file, err := openPlain(path)
	if err != nil {
		return nil, err
	}
	// Until SQLite has closed the database, no file of it may be closed: that releases all locks of the process on it.
	defer func() { err = errors.Join(err, file.Close()) }()
	r := &pageReader{file: file}
	if how == accessLog {
		return r.saveLog(ctx, path, w, last)
	}
	mode := "ro"
	if how == accessImmutable {
		mode = "immutable"
	} else if exists(path + "-journal") {
		if err := recoverSQLite(ctx, path); err != nil {
			return nil, err
		}
	}
	db, conn, err := openSQLite(ctx, path, mode)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(), db.Close()) }()
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return nil, err
	}
	// The first query takes the lock, which the transaction holds.
	if err := conn.QueryRowContext(ctx, "SELECT page_count, page_size FROM pragma_page_count, pragma_page_size").Scan(&r.pages, &r.pageSize); err != nil {
		return nil, err
	}
	isWAL, err := r.isWAL()
	if err != nil {
		return nil, err
	}
	if how == accessImmutable || !isWAL {
		sums, err = r.save(ctx, w, last.sums(r.pageSize), nil)
		if !errors.Is(err, errPartial) {
			return sums, err
		}
	}
	return r.saveRows(ctx, conn, w, last.sums(r.pageSize))
}

// saveRows is save for a database that SQLite reads.
func (r *pageReader) saveRows(ctx context.Context, conn *sql.Conn, w *pageWriter, before *groupSums) (*groupSums, error) {
	w.begin(r.pages, r.pageSize)
	sums := newGroupSums(len(w.groups), before)
	sum, err := sums.summer()
	if err != nil {
		return nil, err
	}
	var content []byte
	pages := 0
	err = eachPage(ctx, conn, func(page []byte) error {
		if pages++; pages > r.pages {
			return errPartial
		}
		if content = append(content, page...); pages%groupSize > 0 && pages < r.pages {
			return nil
		}
		g := groupsOf(pages) - 1
		now := sum(content)
		copy(sums.at(g), now[:])
		err := w.set(ctx, g, content)
		content = content[:0]
		return err
	})
	if err == nil && pages < r.pages {
		err = errPartial
	}
	return sums, err
}

// saveLog is save for a database with a log. It reads only the groups of pages that are in new frames of the log, if the
// file of the database did not change since the last save.
func (r *pageReader) saveLog(ctx context.Context, path string, w *pageWriter, last cacheEntry) (sums *groupSums, err error) {
	identity, err := fileIdentity(path)
	if err != nil {
		return nil, err
	}
	var place logPosition
	if last.Sums != nil && last.Sums.File == identity {
		place = last.Sums.Log
	}
	log, err := openLog(path, place)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	r.log, r.pages, r.pageSize = log, log.pages, log.pageSize
	var isUnchanged func(group int) bool
	if log.hasPlace {
		was := pageReader{pages: last.State.Pages}
		changed := map[int]bool{}
		for page := range log.changed {
			changed[(page-1)/groupSize] = true
		}
		isUnchanged = func(group int) bool { return !changed[group] && r.groupLength(group) == was.groupLength(group) }
	}
	if sums, err = r.save(ctx, w, last.sums(r.pageSize), isUnchanged); err == nil {
		sums.File, sums.Log = identity, log.end
	}
	return sums, err
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

// isWAL reports whether the header of the open file has the journal mode WAL.
func (r *pageReader) isWAL() (bool, error) {
	header := make([]byte, 20)
	n, err := r.file.ReadAt(header, 0)
	if errors.Is(err, io.EOF) { // the file is empty
		err = nil
	}
	return n == len(header) && header[18] == 2, err
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
