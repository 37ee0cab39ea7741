package sqlite

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"modernc.org/sqlite"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/sqlite/internal/checksumvfs"
	"github.com/dalsegno/segno/store/storetest"
)

// headerSumSize is the position of the database header's field for the number of bytes that each page
// reserves for its checksum.
const headerSumSize = 20

// wantSums verifies whether the pages of a closed database have space for checksums.
func wantSums(t *testing.T, file string, want bool) {
	t.Helper()
	size := byte(0)
	if want {
		size = 4
	}
	if got := readFile(t, file)[headerSumSize]; got != size {
		t.Errorf("pages have %d bytes for a checksum; want %d", got, size)
	}
}

// TestChecksumsOfAFixture computes the checksums of the pages of a store on disk as docs/format.md describes
// them.
func TestChecksumsOfAFixture(t *testing.T) {
	data := readFile(t, filepath.Join("testdata", "v3", databaseName))
	for n := uint32(1); len(data) > 0; n++ {
		page := data[:pageSize]
		data = data[pageSize:]
		content := page[:pageSize-4]
		if n == 1 {
			content = slices.Concat(page[:24], page[28:40], page[44:60], page[64:92], page[100:pageSize-4])
		}
		sum := crc32.Checksum(binary.LittleEndian.AppendUint32(nil, n), crc32.MakeTable(crc32.Castagnoli))
		sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), content)
		if got := binary.LittleEndian.Uint32(page[pageSize-4:]); got != sum {
			t.Errorf("page %d has the checksum %08x; want %08x", n, got, sum)
		}
	}
}

// TestEachPageIsVerified flips a bit of each page and reads all rows of all tables through SQLite. It must
// get an error or all values, even if SQLite reads without its page cache.
func TestEachPageIsVerified(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir)
	s := openIn(t, dir, Options{})
	for i, entry := range steps(20) {
		head = mustCommit(t, s, stepCommit(head, entry, i))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, databaseName)
	whole := readFile(t, file)
	want, err := readTables(t, file)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for page := 0; page < len(whole); page += pageSize {
		data := slices.Clone(whole)
		data[page+pageSize/2] ^= 1
		writeFile(t, file, data)
		switch got, err := readTables(t, file); {
		case err != nil && kindOf(err) != segno.KindCorrupt:
			t.Errorf("page %d: %v", page/pageSize+1, err)
		case err == nil && got != want:
			t.Errorf("page %d: the rows differ", page/pageSize+1)
		case err != nil:
			found++
		}
	}
	if pages := len(whole) / pageSize; found < pages/2 {
		t.Errorf("rows are in %d of %d pages", found, pages)
	}
}

// readTables returns the rows of all tables as text.
func readTables(t *testing.T, file string) (all string, err error) {
	t.Helper()
	db, err := sql.Open("sqlite", file+"?vfs="+checksumvfs.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range tables {
		x := &tables[i]
		rows, err := db.QueryContext(t.Context(), "SELECT "+strings.ReplaceAll(x.columns, ", ", " || ' ' || ")+" FROM "+x.name)
		if err != nil {
			return "", err
		}
		defer rows.Close()
		for rows.Next() {
			var row sql.NullString
			if err := rows.Scan(&row); err != nil {
				return "", err
			}
			all += row.String + "\n"
		}
		if err := rows.Err(); err != nil {
			return "", err
		}
	}
	return all, nil
}

// copyDatabase copies a database and its log to another directory.
func copyDatabase(t *testing.T, s *Store) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, end := range []string{"", "-wal"} {
		writeFile(t, filepath.Join(dir, databaseName+end), readFile(t, s.Path()+end))
	}
	return dir
}

// TestOtherProgramsRead lets another program, whose SQLite does not support these checksums, read the files
// of a killed process. When that program closes the database, it copies the pages from the log into the
// database. The store must accept these pages, and the pages that it writes later must have checksums.
func TestOtherProgramsRead(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	trial := storetest.NewDamageTrial(t, s)
	dir := copyDatabase(t, s)
	file := filepath.Join(dir, databaseName)
	rawFrom(t, file, "SELECT count(*) FROM commits")
	if _, err := os.Stat(file + "-wal"); err == nil {
		t.Fatal("the other program left the log")
	}
	for _, copyTo := range []func(to string){
		func(to string) { writeFile(t, to, readFile(t, file)) },
		func(to string) { backUp(t, file, to) },
		func(to string) { rawFrom(t, file, "VACUUM INTO '"+to+"'") },
	} {
		to := filepath.Join(t.TempDir(), "copy")
		copyTo(to)
		writeFile(t, file, readFile(t, to))
		other := openIn(t, dir, Options{})
		if silent := trial.Silent(t.Context(), other); silent != "" {
			t.Error(silent)
		}
		checkClean(t, other)
		// The store writes checksums, so that the next copy contains some.
		if err := other.write(t.Context(), "test", "", func(tx *tx) error {
			_, err := tx.c.sql.ExecContext(tx.ctx, "REINDEX")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		wantSums(t, file, true)
	}
}

// backUp copies a database with SQLite's own interface for copies, as the shell does for .backup.
func backUp(t *testing.T, from, to string) {
	t.Helper()
	db, err := sql.Open("sqlite", from)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Raw(func(c any) error {
		b, err := c.(interface {
			NewBackup(to string) (*sqlite.Backup, error)
		}).NewBackup(to)
		if err != nil {
			return err
		}
		_, err = b.Step(-1) // all pages
		return errors.Join(err, b.Finish())
	}); err != nil {
		t.Fatal(err)
	}
}

// TestOtherProgramsDoNotWrite changes a row with an SQLite that does not support these checksums.
func TestOtherProgramsDoNotWrite(t *testing.T) {
	dir := t.TempDir()
	seed(t, dir)
	file := filepath.Join(dir, databaseName)
	rawFrom(t, file, "UPDATE threads SET turn = 3")
	s := openIn(t, dir, Options{})
	defer s.Close()
	_, err := s.Head(t.Context(), "thread")
	wantKind(t, err, segno.KindCorrupt)
	if len(checkErrors(t, s)) == 0 {
		t.Error("check found nothing")
	}
}

// TestOpenDBKeepsChecksums opens a store with checksums on connections that maintain them, and on others.
func TestOpenDBKeepsChecksums(t *testing.T) {
	vfs, err := VFS()
	if err != nil {
		t.Fatal(err)
	}
	for name, isCreated := range map[string]bool{"created by Open": false, "created by OpenDB": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, databaseName)
			if !isCreated {
				seed(t, dir)
			}
			db, err := sql.Open("sqlite", "file:"+file+"?vfs="+vfs)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			s, err := OpenDB(t.Context(), db, Options{Packs: filepath.Join(dir, "packs")})
			if err != nil {
				t.Fatal(err)
			}
			trial := storetest.NewDamageTrial(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			wantSums(t, file, true)
			other := openIn(t, dir, Options{})
			if silent := trial.Silent(t.Context(), other); silent != "" {
				t.Error(silent)
			}
			checkClean(t, other)
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			plain, err := sql.Open("sqlite", file)
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			before := readFile(t, file)
			_, err = OpenDB(t.Context(), plain, Options{})
			wantKind(t, err, segno.KindRefused)
			if segno.HintOf(err) == "" {
				t.Error("there is no hint")
			}
			if !slices.Equal(before, readFile(t, file)) {
				t.Error("the database was changed")
			}
		})
	}
}

// TestACutFileBesideALogIsNotSilent cuts off the end of the database file of a killed process, whose newest
// pages are in the log: from the middle of a page, and from the beginning of one. SQLite reads zeros in place
// of the missing part. Under SEGNO_SOAK the cut is at each half page.
func TestACutFileBesideALogIsNotSilent(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	trial := storetest.NewDamageTrial(t, s)
	for _, query := range []string{"PRAGMA wal_checkpoint(TRUNCATE)", "UPDATE operations SET n = n"} {
		if _, err := s.db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	whole, log := readFile(t, s.Path()), readFile(t, s.Path()+"-wal")
	step := 9 * pageSize / 2
	if soak.IsWhole() {
		step = pageSize / 2
	}
	for end := pageSize / 2; end < len(whole); end += step {
		dir := t.TempDir()
		file := filepath.Join(dir, databaseName)
		writeFile(t, file, whole[:end])
		writeFile(t, file+"-wal", log)
		other, err := openDir(t.Context(), dir, Options{})
		if err != nil {
			wantKind(t, err, segno.KindCorrupt)
			continue
		}
		if silent := trial.Silent(t.Context(), other); silent != "" {
			t.Errorf("the end from byte %d: %s", end, silent)
		}
		_ = other.Close() // a damaged database may not close
	}
}

// TestHeaderFlags flips each bit of the database header that affects reads: the sizes of pages, of checksums
// and of the database, and the version. A higher version counts as a newer one.
func TestHeaderFlags(t *testing.T) {
	dir := t.TempDir()
	seed(t, dir)
	file := filepath.Join(dir, databaseName)
	whole := readFile(t, file)
	const version = 60
	for _, field := range [][2]int{{16, 24}, {28, 40}, {44, version}, {version, version + 4}, {version + 4, 92}} {
		for bit := 8 * field[0]; bit < 8*field[1]; bit++ {
			data := slices.Clone(whole)
			data[bit/8] ^= 1 << (bit % 8)
			writeFile(t, file, data)
			if s, err := openDir(t.Context(), dir, Options{}); err == nil {
				t.Errorf("bit %d of byte %d is not noticed", bit%8, bit/8)
				_ = s.Close() // the test has failed
			} else if kind := segno.KindOf(err); kind != segno.KindCorrupt && (kind != segno.KindNewer || field[0] != version) {
				t.Errorf("bit %d of byte %d: %v", bit%8, bit/8, err)
			}
		}
	}
}
