package database

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// restorer writes databases.
type restorer struct {
	objects getter
	fs      vfs.FS
}

// The reasons why a move does not change a database.
const (
	whyChanged  = "the database changed meanwhile"
	whyLocked   = "another program has the database locked"
	whyNotPlain = "its path leads through a symlink now, or to something that is no regular file"
	whyPageSize = "the size of its pages changed, and a program has it open"
)

var errNotPlain = errors.New(whyNotPlain)

// write makes the database at path equal to the state to, if it still equals from or already equals to. If
// it cannot, it changes nothing and returns the reason. It can be repeated after an interruption. mode is that of a new file.
func (r *restorer) write(ctx context.Context, path string, from, to segno.Entity, mode fs.FileMode) (conflict string, err error) {
	pages, err := readPages(ctx, r.objects, to.Hash)
	if err != nil {
		return "", err
	}
	before, err := readPages(ctx, r.objects, from.Hash)
	if err != nil {
		return "", err
	}
	err = r.removeTemp(path) // of a move that was interrupted
	if err == nil {
		conflict, err = r.writePlain(ctx, path, from, to, before, pages, mode)
	}
	if why := whyRefused(err); why != "" {
		return why, nil
	}
	return conflict, err
}

// writePlain is write for the pages of both states. An error about the file of the database is not a conflict yet.
func (r *restorer) writePlain(ctx context.Context, path string, from, to segno.Entity, before, pages pageList, mode fs.FileMode) (conflict string, err error) {
	size, there := sizeOf(path)
	switch {
	case !isPlain(path):
		return whyNotPlain, nil
	case there && size == 0 && len(pages) > 0 && len(before) == 0: // an SQLite transaction would write a first page before the check
		conflict, err = r.replace(ctx, path, pages, func() (string, error) {
			if size, there := sizeOf(path); !there || size > 0 {
				return whyChanged, nil
			}
			return "", nil
		})
	case !there && from.Type != segno.EntityNone && to.Type != segno.EntityNone:
		return whyChanged, nil
	case len(pages) == 0:
		conflict, err = r.clear(ctx, path, before, to.Type == segno.EntityNone)
	case !there:
		conflict, err = r.create(ctx, path, pages, mode)
	default:
		if conflict, err = r.update(ctx, path, before, pages); conflict == whyPageSize {
			conflict, err = r.replace(ctx, path, pages, func() (string, error) { return r.checkUnused(ctx, path, before) })
		}
	}
	return conflict, err
}

// whyRefused returns the conflict for an error that would also end each later try to write the database, or "". An error of the
// store is none: other paths are then damaged, too.
func whyRefused(err error) string {
	const why = "it cannot be written: "
	var code interface{ Code() int }
	var errno syscall.Errno
	switch kind := segno.KindOf(err); {
	case err == nil || kind == segno.KindCorrupt || kind == segno.KindCancelled:
	case isBusy(err):
		return whyLocked
	case errors.As(err, &code) && slices.Contains([]int{sqlitePerm, sqliteReadOnly, sqliteCorrupt, sqliteCantOpen, sqliteNotADB}, code.Code()&0xff):
		return why + oneLine(err).Error()
	case errors.As(err, &errno) && slices.Contains([]syscall.Errno{syscall.EACCES, syscall.EPERM, syscall.ENOTDIR, syscall.ENOENT}, errno):
		return why + errno.Error()
	}
	return ""
}

// The codes of SQLite for a file that this user must not write, or that is not a database.
const (
	sqlitePerm     = 3
	sqliteReadOnly = 8
	sqliteCorrupt  = 11
	sqliteCantOpen = 14
	sqliteNotADB   = 26
)

// update writes the pages that differ, in one transaction of SQLite. It is atomic, even if this process is killed.
// Programs that have the database open see it as a change of another client.
func (r *restorer) update(ctx context.Context, path string, from, to pageList) (conflict string, err error) {
	db, conn, err := openSQLite(ctx, path, "rw")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close(), db.Close()) }()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return "", err
	}
	written := false
	defer func() {
		if !written {
			_, rollbackErr := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, rollbackErr)
		}
	}()
	present, header, err := presentPages(ctx, conn)
	switch {
	case err != nil:
		return "", err
	case equalPages(present, to):
		return "", nil
	case !equalPages(present, from):
		return whyChanged, nil
	}
	if conflict, err := r.writePages(ctx, conn, present, to, header); conflict != "" || err != nil {
		return conflict, err
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return "", err
	}
	written = true
	return "", nil
}

// checkUnused checks a database again before replace renames another file onto it. A transaction cannot change the page size, so
// such a move replaces the file. SQLite empties the log when the last connection closes, so without a log and without other clients
// the file contains the whole database.
func (r *restorer) checkUnused(ctx context.Context, path string, before pageList) (conflict string, err error) {
	if conflict, err := r.update(ctx, path, before, before); conflict != "" || err != nil {
		return conflict, err
	}
	for _, suffix := range sidecars() {
		if size, there := sizeOf(path + suffix); there && size > 0 {
			return whyPageSize, nil
		}
	}
	if len(clients(path)) > 0 {
		return whyPageSize, nil
	}
	return "", nil
}

// presentPages returns the hashes of the pages of an open database, and the content of its first
// page.
func presentPages(ctx context.Context, conn *sql.Conn) (pages pageList, first []byte, err error) {
	err = eachPage(ctx, conn, func(page []byte) error {
		pages = append(pages, sha256.Sum256(page))
		return nil
	})
	if err == nil && len(pages) > 0 {
		err = conn.QueryRowContext(ctx, "SELECT data FROM sqlite_dbpage WHERE pgno = 1").Scan(&first)
	}
	return pages, first, err
}

func equalPages(a, b pageList) bool { return differing(a, b) == 0 }

// writePages writes the pages in which to differs from present. first is the present first page. writePages writes the
// first page last, because SQLite reads the schema again when it changes, and then needs all other pages.
func (r *restorer) writePages(ctx context.Context, conn *sql.Conn, present, to pageList, first []byte) (conflict string, err error) {
	write := func(i int) error {
		if i < len(present) && present[i] == to[i] {
			return nil
		}
		page, err := r.objects.Get(ctx, to[i])
		if err != nil {
			return segno.NewError(segno.KindCorrupt, "restore database", to[i].String(), err)
		}
		if len(page) != len(first) {
			return errPageSize
		}
		if i == 0 { // keep the bytes that are not part of the content
			for _, r := range headerRanges() {
				copy(page[r[0]:r[1]], first[r[0]:r[1]])
			}
		}
		_, err = conn.ExecContext(ctx, "INSERT INTO sqlite_dbpage(pgno, data) VALUES (?, ?)", i+1, page)
		return err
	}
	for i := 1; i < len(to) && err == nil; i++ {
		err = write(i)
	}
	if err == nil && len(to) < len(present) {
		_, err = conn.ExecContext(ctx, "INSERT INTO sqlite_dbpage(pgno, data) VALUES (?, NULL)", len(to)+1)
	}
	if err == nil {
		err = write(0)
	}
	if errors.Is(err, errPageSize) {
		return whyPageSize, nil
	}
	return "", err
}

var errPageSize = errors.New("another page size")

// clear deletes a database that did not exist at the target of the move. If remove is not set, it
// only truncates the file.
func (r *restorer) clear(ctx context.Context, path string, before pageList, remove bool) (conflict string, err error) {
	if size, there := sizeOf(path); there && size > 0 {
		db, conn, err := openSQLite(ctx, path, "rw")
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, conn.Close(), db.Close()) }()
		if conflict, err := lockEqual(ctx, conn, path, before, remove); conflict != "" || err != nil {
			return conflict, err
		}
	}
	names := []string{path + "-wal", path + "-shm", path + "-journal"}
	if remove {
		names = append([]string{path}, names...) // first, because SQLite deletes a log without database
	} else if err := r.empty(path); err != nil {
		return "", segno.NewError(segno.KindIO, "empty database", path, err)
	}
	for _, name := range names {
		if err := r.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", segno.NewError(segno.KindIO, "remove database", path, err)
		}
	}
	return "", r.fs.SyncDir(filepath.Dir(path))
}

// lockEqual locks a database if it still has the pages. If isRemoved is not set, the log is then empty: SQLite writes what is left in it into
// the file when the last connection is closed, and would fill a file that was emptied.
func lockEqual(ctx context.Context, conn *sql.Conn, path string, pages pageList, isRemoved bool) (conflict string, err error) {
	if !isRemoved {
		if _, err := conn.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			return "", err
		}
	}
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return "", err
	}
	present, _, err := presentPages(ctx, conn)
	if err != nil {
		return "", err
	}
	if !equalPages(present, pages) {
		return whyChanged, nil
	}
	if size, _ := sizeOf(path + "-wal"); size > 0 && !isRemoved {
		return whyLocked, nil // a program still reads what is in the log
	}
	return "", nil
}

func (r *restorer) empty(path string) error {
	f, err := r.fs.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// sizeOf returns the size of a file. there is false if the file does not exist.
func sizeOf(path string) (size int64, there bool) {
	fi, err := os.Lstat(path)
	if err != nil {
		return 0, false
	}
	return fi.Size(), true
}

// tempName returns the name under which a database is written before it gets its place.
func tempName(path string) string { return path + ".segno-new" }

func (r *restorer) removeTemp(path string) error {
	if err := r.fs.Remove(tempName(path)); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return segno.NewError(segno.KindIO, "restore database", path, err)
	}
	return nil
}

// create writes a database to a path that does not exist. A database that another program makes there meanwhile is a conflict.
func (r *restorer) create(ctx context.Context, path string, pages pageList, mode fs.FileMode) (conflict string, err error) {
	if err := vfs.MkdirAllSynced(r.fs, filepath.Dir(path)); err != nil {
		return "", segno.NewError(segno.KindIO, "restore database", path, err)
	}
	return r.publish(ctx, path, pages, mode, func(temp string) (string, error) {
		if _, there := sizeOf(path); there {
			return whyChanged, nil
		}
		if err := r.removeSidecars(path); err != nil {
			return "", err
		}
		err := r.fs.Link(temp, path)
		switch _, there := sizeOf(path); {
		case err == nil:
			return "", r.fs.Remove(temp)
		case there:
			return whyChanged, nil
		}
		return "", r.fs.Rename(temp, path) // the file system has no hard links
	})
}

// replace replaces the file of a database, if check still finds that it may.
func (r *restorer) replace(ctx context.Context, path string, pages pageList, check func() (conflict string, err error)) (conflict string, err error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return "", segno.NewError(segno.KindIO, "restore database", path, err)
	}
	return r.publish(ctx, path, pages, fi.Mode().Perm(), func(temp string) (string, error) {
		if conflict, err := check(); conflict != "" || err != nil {
			return conflict, err
		}
		if err := r.removeSidecars(path); err != nil {
			return "", err
		}
		return "", r.fs.Rename(temp, path)
	})
}

// removeSidecars removes the files beside an earlier database, because SQLite would apply its log to the one that takes its place.
func (r *restorer) removeSidecars(path string) error {
	for _, suffix := range sidecars() {
		if err := r.fs.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// publish writes a database to a temporary file, and calls place, which moves the file to its path.
func (r *restorer) publish(ctx context.Context, path string, pages pageList, mode fs.FileMode, place func(temp string) (conflict string, err error)) (conflict string, err error) {
	temp := tempName(path)
	err = r.writeFile(ctx, temp, pages)
	if err == nil {
		err = r.fs.Chmod(temp, mode)
	}
	if err == nil {
		conflict, err = place(temp)
	}
	if err == nil && conflict == "" {
		err = r.fs.SyncDir(filepath.Dir(path))
	}
	if err == nil && conflict == "" {
		return "", nil
	}
	_ = r.fs.Remove(temp)
	var known *segno.Error
	if err != nil && !errors.As(err, &known) {
		err = segno.NewError(segno.KindIO, "restore database", path, err)
	}
	return conflict, err
}

func (r *restorer) writeFile(ctx context.Context, name string, pages pageList) (err error) {
	f, err := r.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := writePages(ctx, r.objects, f, pages); err != nil {
		return err
	}
	return f.Sync()
}

// isBusy reports whether SQLite, PostgreSQL or pg_dump waited too long for the lock of another program.
func isBusy(err error) bool {
	var code interface{ Code() int }
	if errors.As(err, &code) {
		return code.Code()&0xff == 5 || code.Code()&0xff == 6
	}
	return err != nil && strings.Contains(err.Error(), "lock timeout")
}

// describeFailure returns the reason why a database could not be read, on one line.
func describeFailure(err error) string {
	var rights *rightsError
	switch {
	case isBusy(err):
		return whyLocked
	case errors.As(err, &rights), errors.Is(err, errNotPlain):
		return oneLine(err).Error()
	}
	return "it cannot be read: " + oneLine(err).Error()
}

func firstLine(err error) string {
	text, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return text
}

// isPlain reports whether a path contains no symlink and does not lead to a file of another type. An agent may have
// replaced a database by a symlink to one that is not attached.
func isPlain(path string) bool {
	fi, err := os.Lstat(path)
	if err == nil && !fi.Mode().IsRegular() {
		return false
	}
	if err != nil {
		path = filepath.Dir(path)
	}
	real, err := filepath.EvalSymlinks(path)
	return err != nil || real == path
}
