package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
)

func wantKind(t *testing.T, err error, want segno.Kind) {
	t.Helper()
	if err == nil || segno.KindOf(err) != want {
		t.Fatalf("the error %v has kind %q; want %q", err, segno.KindOf(err), want)
	}
}

// TestOpenModes verifies the permissions of the files.
func TestOpenModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "store")
	s := openIn(t, dir, Options{})
	defer s.Close()
	seedPack(t, s)
	for name, want := range map[string]fs.FileMode{"": 0o700 | fs.ModeDir, "segno.db": 0o600, "segno.db-wal": 0o600,
		"packs": 0o700 | fs.ModeDir} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode() != want {
			t.Errorf("%q has mode %v instead of %v", name, fi.Mode(), want)
		}
	}
	packs, err := os.ReadDir(filepath.Join(dir, "packs"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	if fi, err := packs[0].Info(); err != nil || fi.Mode() != 0o600 {
		t.Errorf("a pack has mode %v, %v", fi.Mode(), err)
	}
}

// seedPack stores a few small objects and a pack, and returns their names.
func seedPack(t *testing.T, s *Store) []segno.Hash {
	t.Helper()
	var names []segno.Hash
	for _, data := range [][]byte{[]byte("small"), []byte(strings.Repeat("text that compresses well. ", 400)), make([]byte, 2<<20)} {
		if len(data) == 2<<20 {
			copy(data, bulk(testRand(9)))
			copy(data[1100<<10:], bulk(testRand(10)))
		}
		b := s.Objects().Batch()
		name, err := b.Put(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		staged, err := b.Stage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Objects().Keep(t.Context(), staged); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// TestOpenPaths opens stores in directories whose names have characters with a meaning in URIs.
func TestOpenPaths(t *testing.T) {
	for _, name := range []string{"a?b", "a#b", "a%20b", "a b", "é", "\xff", "file:x", "a&mode=ro", "100%"} {
		dir := filepath.Join(t.TempDir(), name)
		seed(t, dir)
		if _, err := os.Stat(filepath.Join(dir, databaseName)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		s := openIn(t, dir, Options{})
		if _, err := s.Head(t.Context(), "thread"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestOpenSettings verifies the settings of every connection.
func TestOpenSettings(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{BusyTimeout: 250 * time.Millisecond})
	defer s.Close()
	writer := <-s.writer
	defer func() { s.writer <- writer }()
	reader, home, err := s.acquireReader(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { home <- reader }()
	if err := writer.setImpatient(t.Context(), false); err != nil { // the commit of the schema did not wait; see begin
		t.Fatal(err)
	}
	for _, c := range []*conn{writer, reader} {
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "250", "user_version": "3"} {
			var got string
			if err := c.sql.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %q, %v; want %q", pragma, got, err, want)
			}
		}
	}
}

// TestReadOnlyDoesNotCreate opens a store that does not exist.
func TestReadOnlyDoesNotCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	_, err := openDir(t.Context(), dir, Options{ReadOnly: true})
	wantKind(t, err, segno.KindNotFound)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the directory exists: %v", err)
	}
}

// TestOpenDB opens a store on a database that the test has opened, and which remains open after the store.
func TestOpenDB(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var heads []segno.Head
	for range 2 { // the first one creates the store
		s, err := OpenDB(t.Context(), db, Options{BusyTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		head, err := s.Head(t.Context(), "thread")
		if segno.KindOf(err) == segno.KindNotFound {
			head, err = s.Commit(t.Context(), segno.Commit{ID: "base", Thread: "thread", Create: &segno.Thread{ID: "thread"},
				Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: time.Now()}})
		}
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, head)
		c := <-s.writer
		var timeout, synchronous string
		_, err1 := c.row(t.Context(), "PRAGMA busy_timeout", nil, &timeout)
		_, err2 := c.row(t.Context(), "PRAGMA synchronous", nil, &synchronous)
		s.writer <- c
		if err := errors.Join(err1, err2); err != nil || timeout != "1000" || synchronous != "2" {
			t.Errorf("busy_timeout is %s and synchronous is %s, %v", timeout, synchronous, err)
		}
		checkClean(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := db.PingContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if heads[0] != heads[1] || heads[0].Head != "base" {
		t.Errorf("%+v", heads)
	}
	db.SetMaxOpenConns(1)
	_, err = OpenDB(t.Context(), db, Options{})
	wantKind(t, err, segno.KindInvalid)
	memory, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	_, err = OpenDB(t.Context(), memory, Options{})
	wantKind(t, err, segno.KindInvalid)
}

// TestReadOnly verifies that a read-only store can be read and that each write fails.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir)
	s := openIn(t, dir, Options{ReadOnly: true})
	defer s.Close()
	if got, err := s.Head(t.Context(), "thread"); err != nil || got != head {
		t.Fatal(got, err)
	}
	checkClean(t, s)
	_, err := s.Commit(t.Context(), segno.Commit{ID: "x", Thread: "thread", Expect: head.Head})
	wantKind(t, err, segno.KindRefused)
	wantKind(t, s.Delete(t.Context(), "thread"), segno.KindRefused)
	wantKind(t, s.PutWorkspace(t.Context(), segno.WorkspaceRecord{ID: "w"}), segno.KindRefused)
	_, err = s.Collect(t.Context(), segno.CollectPolicy{})
	wantKind(t, err, segno.KindRefused)
	if _, err = s.Collect(t.Context(), segno.CollectPolicy{DryRun: true}); err != nil {
		t.Fatal(err)
	}
}

// TestOpenNewer verifies that Open refuses a store of a newer version, with a hint, and does not change it.
func TestOpenNewer(t *testing.T) {
	dir := t.TempDir()
	seed(t, dir)
	file := filepath.Join(dir, databaseName)
	raw(t, file, "PRAGMA user_version=4")
	before := readFile(t, file)
	_, err := openDir(t.Context(), dir, Options{})
	wantKind(t, err, segno.KindNewer)
	if segno.HintOf(err) == "" {
		t.Error("there is no hint")
	}
	if string(readFile(t, file)) != string(before) {
		t.Error("the database was changed")
	}
}

// raw executes a query in the database of a store.
func raw(t *testing.T, file, query string) {
	t.Helper()
	vfs, err := VFS()
	if err != nil {
		t.Fatal(err)
	}
	rawFrom(t, file+"?vfs="+vfs, query)
}

// rawFrom executes a query in a database, which it opens with the driver's name for it.
func rawFrom(t *testing.T, name, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOpenDamaged verifies that Open refuses files that are not databases of segno, and does not change them.
func TestOpenDamaged(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, file string){
		"text":  func(t *testing.T, file string) { writeFile(t, file, []byte(strings.Repeat("not a database. ", 1000))) },
		"zeros": func(t *testing.T, file string) { writeFile(t, file, make([]byte, 8192)) },
		"a torn header": func(t *testing.T, file string) {
			data := readFile(t, file)
			copy(data[20:], "xxxxxxxxxxxxxxxxxxxxxxxx")
			writeFile(t, file, data)
		},
		"somebody else's": func(t *testing.T, file string) {
			writeFile(t, file, nil)
			rawFrom(t, file, "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
		},
		"emptied beside its packs": func(t *testing.T, file string) { writeFile(t, file, nil) },
		"gone from its packs": func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openIn(t, dir, Options{})
			seedPack(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, databaseName)
			damage(t, file)
			before, _ := os.ReadFile(file)
			for range 2 {
				_, err := openDir(t.Context(), dir, Options{})
				wantKind(t, err, segno.KindCorrupt)
			}
			if after, _ := os.ReadFile(file); string(after) != string(before) {
				t.Fatal("the evidence was overwritten")
			}
		})
	}
}

// TestBusy verifies that a writer waits for another process until the busy timeout or its context ends.
func TestBusy(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir)
	other := openIn(t, dir, Options{})
	defer other.Close()
	c := <-other.writer
	if _, err := c.exec(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	next := segno.Commit{ID: "next", Thread: "thread", Parent: head.Head, Expect: head.Head,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1}}

	hasty := openIn(t, dir, Options{BusyTimeout: 20 * time.Millisecond})
	defer hasty.Close()
	_, err := hasty.Commit(t.Context(), next)
	wantKind(t, err, segno.KindBusy)
	if segno.HintOf(err) == "" {
		t.Error("there is no hint")
	}
	if got, err := hasty.Head(t.Context(), "thread"); err != nil || got != head {
		t.Fatalf("reading beside a writer: %v, %v", got, err)
	}

	patient := openIn(t, dir, Options{BusyTimeout: time.Hour})
	defer patient.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = patient.Commit(ctx, next)
	wantKind(t, err, segno.KindCancelled)

	if _, err := c.exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	other.writer <- c
	for _, s := range []*Store{patient, hasty} {
		if got, err := s.Commit(t.Context(), next); err != nil || got.Head != "next" {
			t.Fatal(got, err)
		}
	}
}

// TestOpenTogether creates the same store from many goroutines concurrently.
func TestOpenTogether(t *testing.T) {
	for range 10 {
		dir := filepath.Join(t.TempDir(), "store")
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				s, err := openDir(t.Context(), dir, Options{})
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
		group.Wait()
	}
}

// TestOpenFile opens a store in a file of any name, with its packs beside it.
func TestOpenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.db")
	s, err := Open(t.Context(), file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	big := testRand(1)
	data := make([]byte, 2<<20)
	for i := range data {
		data[i] = byte(big.Uint32())
	}
	b := s.Objects().Batch()
	name, err := b.Put(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	staged, err := b.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Objects().Keep(t.Context(), staged); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), file, Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := s.Objects().Get(t.Context(), name); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	for name, mode := range map[string]os.FileMode{file: 0o600, file + ".packs": os.ModeDir | 0o700} {
		if fi, err := os.Stat(name); err != nil || fi.Mode() != mode {
			t.Errorf("%s: %v, %v; want %v", name, fi.Mode(), err, mode)
		}
	}
}
