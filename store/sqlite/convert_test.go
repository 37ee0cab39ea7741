package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/google/go-cmp/cmp"
)

// dump returns every row of every table of a closed database, except for the columns of lease checksums, which a
// store of an older version does not have.
func dump(t *testing.T, file string) map[string][]string {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	all := map[string][]string{}
	for _, table := range []string{"threads", "commits", "terms", "pins", "links", "workspaces", "operations", "packs", "objects", "small",
		"phases"} {
		rows, err := db.Query("SELECT * FROM " + table + " ORDER BY 1, 2")
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		values := make([]any, len(columns))
		dest := make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		for rows.Next() {
			if err := rows.Scan(dest...); err != nil {
				t.Fatal(err)
			}
			line := ""
			for i, v := range values {
				if columns[i] == "owner" {
					text, _, _ := strings.Cut(string(bytesOf(v)), "\n")
					v = text
				}
				line += fmt.Sprintf("%s=%T %q ", columns[i], v, fmt.Sprint(v))
			}
			all[table] = append(all[table], line)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// seedPlain makes a store with every kind of record: packs, small objects, leases, a deleted thread, a child thread, and
// commits that a collection dropped.
func seedPlain(t *testing.T, dir string, o Options) {
	t.Helper()
	clock := storetest.NewClock()
	o.Clock = clock.Now
	s := openIn(t, dir, o)
	defer s.Close()
	seedSealed(t, s)
	for _, c := range []segno.Commit{
		{ID: "child base", Thread: "child", Create: &segno.Thread{ID: "child", ParentThread: "thread"},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Meta: map[string]string{"a": "b", "c": "d"}}},
		{ID: "deleted base", Thread: "deleted", Create: &segno.Thread{ID: "deleted", Title: "a deleted title"},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}} {
		if _, err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Hour)
	collect(t, s)
}

func convert(t *testing.T, from, to string, fromKey, toKey []byte) Converted {
	t.Helper()
	s := openIn(t, from, Options{Key: fromKey})
	defer s.Close()
	var last, sum int64
	done, err := s.Convert(t.Context(), filepath.Join(to, databaseName), Options{Key: toKey, Packs: filepath.Join(to, "packs")},
		func(done, total int64) { last, sum = done, total })
	if err != nil {
		t.Fatal(err)
	}
	if last != sum {
		t.Errorf("the progress ended at %d of %d", last, sum)
	}
	return done
}

// TestConvert seals stores and removes the seal again. Every row must be unchanged. The sealed store must
// have the same content, and its files must contain no plain text.
func TestConvert(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, dir string){
		"golden": func(t *testing.T, dir string) {
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "v1"))); err != nil {
				t.Fatal(err)
			}
		},
		"everything": func(t *testing.T, dir string) { seedPlain(t, dir, Options{}) },
		"empty": func(t *testing.T, dir string) {
			if err := openIn(t, dir, Options{}).Close(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			plain, sealed, back := t.TempDir(), t.TempDir(), t.TempDir()
			make(t, plain)
			if err := openIn(t, plain, Options{}).Close(); err != nil { // it may upgrade the store
				t.Fatal(err)
			}
			before := dump(t, filepath.Join(plain, databaseName))
			done := convert(t, plain, sealed, nil, storetest.SealedKey())
			if again := convert(t, sealed, back, storetest.SealedKey(), nil); again.Commits != done.Commits || again.Objects != done.Objects {
				t.Errorf("sealed %+v, unsealed %+v", done, again)
			}
			if diff := cmp.Diff(before, dump(t, filepath.Join(plain, databaseName))); diff != "" {
				t.Errorf("the source changed (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(before, dump(t, filepath.Join(back, databaseName))); diff != "" {
				t.Errorf("the way there and back changed (-before +after):\n%s", diff)
			}
			for _, x := range []struct {
				dir string
				key []byte
			}{{sealed, storetest.SealedKey()}, {back, nil}} {
				s := openIn(t, x.dir, Options{Key: x.key})
				checkClean(t, s)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			files := contents(t, sealed)
			for _, secret := range []string{"a prompt", "a session", "a note", "the owner", "a title", "a pin", "/home/", "object of",
				"new, long enough", "claude"} {
				if bytes.Contains(files, []byte(secret)) {
					t.Errorf("%q can be read", secret)
				}
			}
		})
	}
}

// TestConvertedCommitIsRepeated repeats commits in a converted store, in both directions. The store must
// recognize them.
func TestConvertedCommitIsRepeated(t *testing.T) {
	plain, sealed, back := t.TempDir(), t.TempDir(), t.TempDir()
	c := segno.Commit{ID: "base", Thread: "thread", Create: &segno.Thread{ID: "thread"}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase,
		Time: time.Unix(1, 0)}}
	s := openIn(t, plain, Options{})
	want, err := s.Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	convert(t, plain, sealed, nil, storetest.SealedKey())
	convert(t, sealed, back, storetest.SealedKey(), nil)
	for dir, key := range map[string][]byte{sealed: storetest.SealedKey(), back: nil} {
		s := openIn(t, dir, Options{Key: key})
		got, err := s.Commit(t.Context(), c)
		if err != nil || got != want {
			t.Errorf("a repeated commit gives %+v, %v instead of %+v", got, err, want)
		}
		other := c
		other.Checkpoint = &segno.Checkpoint{Kind: segno.CheckpointBase, Prompt: "another"}
		if _, err := s.Commit(t.Context(), other); segno.KindOf(err) != segno.KindConflict {
			t.Errorf("another commit of the same id: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConvertRefusesDamage converts stores with a damaged record of each kind.
func TestConvertRefusesDamage(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for what, query := range map[string]string{
		"thread":     `UPDATE threads SET record = x'00' WHERE id = 'thread'`,
		"lease":      `UPDATE threads SET expires = 7 WHERE id = 'thread'`,
		"checkpoint": `UPDATE commits SET checkpoint = x'0000' WHERE id = 'two of thread'`,
		"entries":    `UPDATE commits SET entries = NULL WHERE id = 'two of thread'`,
		"digest":     `UPDATE commits SET digest = x'00' WHERE id = 'two of thread'`,
		"session":    `UPDATE links SET session = 'another' WHERE n = 1`,
		"path":       `UPDATE workspaces SET path = x'00' WHERE id = 'thread'`,
		"state":      `UPDATE workspaces SET state = x'00' WHERE id = 'thread'`,
		"operation":  `UPDATE operations SET record = x'00' WHERE n = 1`,
		"object":     `UPDATE small SET data = x'0000'`,
	} {
		for _, key := range [][]byte{nil, storetest.SealedKey()} {
			t.Run(fmt.Sprint(what, key != nil), func(t *testing.T) {
				dir := t.TempDir()
				seedPlain(t, dir, Options{Key: key})
				raw(t, filepath.Join(dir, databaseName), query)
				s := openIn(t, dir, Options{Key: key})
				defer s.Close()
				to := storetest.SealedKey()
				if key != nil {
					to = nil
				}
				_, err := s.Convert(t.Context(), filepath.Join(t.TempDir(), databaseName), Options{Key: to}, nil)
				wantKind(t, err, segno.KindCorrupt)
			})
		}
	}
}

// TestConvertFaults fails each operation on the file system in turn. Convert must return an error, and the
// source must be unchanged.
func TestConvertFaults(t *testing.T) {
	dir := t.TempDir()
	seedPlain(t, dir, Options{})
	before := dump(t, filepath.Join(dir, databaseName))
	s := openIn(t, dir, Options{})
	defer s.Close()
	for n := 0; ; n++ {
		faults := faultfs.FailAt(n)
		_, err := s.Convert(t.Context(), filepath.Join(t.TempDir(), databaseName), Options{Key: storetest.SealedKey(), FS: faults.Wrap(vfs.OS)}, nil)
		if err == nil && faults.Fired() {
			t.Fatalf("operation %d failed and Convert returned no error", n)
		}
		if err == nil {
			break
		}
		wantKind(t, err, segno.KindIO)
	}
	if diff := cmp.Diff(before, dump(t, filepath.Join(dir, databaseName))); diff != "" {
		t.Errorf("the source changed:\n%s", diff)
	}
}

// TestConvertSortsNothingOnDisk verifies that no query of a conversion sorts rows, because SQLite sorts large
// results in temporary files, whose content would remain on the disk unencrypted.
func TestConvertSortsNothingOnDisk(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	for i := range tables {
		rows, err := s.db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+tables[i].query())
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(step, "TEMP") {
				t.Errorf("%s: %s", tables[i].name, step)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
