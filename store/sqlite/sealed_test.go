package sqlite

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/storetest"
)

// TestSealed runs the conformance tests about sealing on the files: the database, its log and the packs.
func TestSealed(t *testing.T) {
	storetest.TestSealed(t, func(t *testing.T) storetest.Place {
		dir := t.TempDir()
		return storetest.Place{
			Open: func(t *testing.T, key []byte) (segno.Store, error) {
				s, err := Open(t.Context(), filepath.Join(dir, "agent.db"), Options{Key: key})
				if err != nil {
					return nil, err
				}
				return s, nil
			},
			Dump: func(t *testing.T) []byte { return contents(t, dir) },
		}
	})
}

// contents returns the names and the bytes of all files.
func contents(t *testing.T, dir string) []byte {
	t.Helper()
	var all bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all.WriteString(path + "\n")
		all.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.Bytes()
}

// TestSealedLog searches the files for plain text while a store is open and the newest records are in the
// log.
func TestSealedLog(t *testing.T) {
	dir := t.TempDir()
	s := openIn(t, dir, Options{Key: storetest.SealedKey()})
	defer s.Close()
	seedSealed(t, s)
	all := contents(t, dir)
	if !bytes.Contains(all, []byte("segno.db-wal\n")) {
		t.Fatal("there is no log")
	}
	for _, secret := range []string{"a prompt", "claude-test-1", "a session", "a note", "the owner"} {
		if bytes.Contains(all, []byte(secret)) {
			t.Errorf("%q can be read", secret)
		}
	}
}

// TestSealedStore runs the conformance tests on a store with a key.
func TestSealedStore(t *testing.T) {
	clock := storetest.NewClock()
	o := Options{Clock: clock.Now, Key: storetest.SealedKey()}
	storetest.TestSome(t, 4, func(t *testing.T) segno.Store { return openIn(t, t.TempDir(), o) }, storetest.Options{
		Clock: clock,
		Reopen: func(t *testing.T, s segno.Store) segno.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return openIn(t, s.(*Store).dir, o)
		},
		Another: func(t *testing.T, s segno.Store) segno.Store { return openIn(t, s.(*Store).dir, o) },
	})
}

// seedSealed creates two threads with one record of each kind.
func seedSealed(t *testing.T, s *Store) {
	t.Helper()
	seedPack(t, s)
	for _, thread := range []segno.ThreadID{"thread", "other"} {
		id := func(what string) segno.CommitID { return segno.CommitID(what + " of " + string(thread)) }
		head, err := s.Commit(t.Context(), segno.Commit{ID: id("base"), Thread: thread, Create: &segno.Thread{ID: thread,
			Title: "a title"}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
		for i, what := range []string{"one", "two", "three"} {
			if err != nil {
				t.Fatal(err)
			}
			b := s.Objects().Batch()
			if _, err := b.Put(t.Context(), []byte("object of "+what)); err != nil {
				t.Fatal(err)
			}
			staged, err := b.Stage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c := segno.Commit{ID: id(what), Thread: thread, Parent: head.Head, Expect: head.Head, Staged: staged,
				Entries: []segno.Entry{step(testRand(uint64(i)), 1)},
				Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: i + 1, Prompt: strings.Repeat("a prompt ", 20),
					State: &segno.Document{Type: "x", Data: segno.HashOf([]byte("object of " + what))}},
				Link:      &segno.Link{Agent: "claude", Session: segno.SessionID("a session of " + what), Note: "a note"},
				Pin:       &segno.Pin{Checkpoint: head.Head, Name: "a pin"},
				Operation: &segno.Operation{ID: segno.OperationID(id("op " + what)), Workspace: "w", Thread: thread},
				Workspace: &segno.WorkspaceState{Workspace: segno.WorkspaceID(thread), Thread: thread}}
			if head, err = s.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.PutWorkspace(t.Context(), segno.WorkspaceRecord{ID: segno.WorkspaceID(thread), Path: "/home/" + string(thread),
			Inode: 7}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Acquire(t.Context(), segno.Lease{Thread: thread, Owner: "the owner",
			Expires: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
}

// swap returns a statement that exchanges a column of two rows.
func swap(table, column, one, other string) string {
	return `CREATE TEMP TABLE two AS SELECT (SELECT ` + column + ` FROM ` + table + ` WHERE ` + other + `) AS first, (SELECT ` +
		column + ` FROM ` + table + ` WHERE ` + one + `) AS second;
		UPDATE ` + table + ` SET ` + column + ` = CASE WHEN ` + one + ` THEN (SELECT first FROM two) ELSE (SELECT second FROM two) END
			WHERE ` + one + ` OR ` + other
}

// TestSealedRecordsOpenOnlyInTheirRow moves records to other rows, or replaces them with plain ones. A read
// must return KindCorrupt and name the record, Check must report it, and other records must be read as
// before.
func TestSealedRecordsOpenOnlyInTheirRow(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	loads := func(id segno.CommitID) func(t *testing.T, s *Store) error {
		return func(t *testing.T, s *Store) error {
			_, err := s.Load(t.Context(), id, segno.Window{Entries: true})
			return err
		}
	}
	gets := func(data string) func(t *testing.T, s *Store) error {
		return func(t *testing.T, s *Store) error {
			_, err := s.Objects().Get(t.Context(), segno.HashOf([]byte(data)))
			return err
		}
	}
	heads := func(t *testing.T, s *Store) error { _, err := s.Head(t.Context(), "thread"); return err }
	threads := func(t *testing.T, s *Store) error {
		for _, err := range s.Threads(t.Context(), segno.ThreadQuery{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	chain := func(t *testing.T, s *Store) error {
		for _, err := range s.Chain(t.Context(), "thread") {
			if err != nil {
				return err
			}
		}
		return nil
	}
	pins := func(t *testing.T, s *Store) error {
		for _, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{Pinned: true}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	workspaces := func(t *testing.T, s *Store) error { _, err := s.Workspace(t.Context(), "thread"); return err }
	operationsOf := func(w segno.WorkspaceID) func(t *testing.T, s *Store) error {
		return func(t *testing.T, s *Store) error {
			for _, err := range s.Operations(t.Context(), w) {
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	object := segno.HashOf([]byte("object of one")).String()
	smallOf := func(what string) string {
		return `n IN (SELECT at FROM objects WHERE pack = 0 AND size = ` + map[string]string{"one": "13", "three": "15"}[what] +
			` ORDER BY at LIMIT 1)`
	}
	for what, x := range map[string]struct {
		damage, want string
		read, sound  func(t *testing.T, s *Store) error
	}{
		"entries of two threads": {swap("commits", "entries", "id = 'three of thread'", "id = 'three of other'"), "three of thread",
			loads("three of thread"), loads("two of thread")},
		"entries along a line": {swap("commits", "entries", "id = 'two of thread'", "id = 'three of thread'"), "of thread",
			loads("three of thread"), loads("one of thread")},
		"checkpoints along a line": {swap("commits", "checkpoint", "id = 'two of thread'", "id = 'three of thread'"), "of thread",
			loads("three of thread"), loads("one of thread")},
		"another parent": {`UPDATE commits SET parent = (SELECT n FROM commits WHERE id = 'two of other')
			WHERE id = 'three of thread'`, "three of thread", loads("three of thread"), loads("two of thread")},
		"a whole line below it": {`UPDATE commits SET parent = p.n, line = commits.n, depth = p.depth + 1
			FROM (SELECT n, depth FROM commits WHERE id = 'two of other') p WHERE id = 'three of thread'`, "three of thread",
			loads("three of thread"), loads("two of thread")},
		"seqs along a line": {`UPDATE commits SET seq = 99 WHERE id = 'one of thread'`, "two of thread",
			loads("three of thread"), loads("one of thread")},
		"another's thread": {`UPDATE commits SET seq = 99, thread = (SELECT n FROM threads WHERE id = 'other')
			WHERE id = 'three of thread'`, "three of thread", loads("three of thread"), loads("two of thread")},
		"another id": {`UPDATE commits SET id = 'another' WHERE id = 'three of thread'`, "another", loads("another"),
			loads("two of thread")},
		"plain entries": {`UPDATE commits SET entries = x'0000' WHERE id = 'three of thread'`, "three of thread",
			loads("three of thread"), loads("two of thread")},
		"a plain checkpoint": {`UPDATE commits SET checkpoint = x'0000' WHERE id = 'three of thread'`, "three of thread",
			loads("three of thread"), loads("two of thread")},
		"entries as a checkpoint": {`UPDATE commits SET checkpoint = entries WHERE id = 'three of thread'`, "three of thread",
			loads("three of thread"), loads("two of thread")},
		"the records of threads": {swap("threads", "record", "id = 'thread'", "id = 'other'"), "", threads, loads("three of thread")},
		"a plain thread":         {`UPDATE threads SET record = x'' WHERE id = 'thread'`, "thread", threads, loads("three of thread")},
		"links of one thread":    {swap("links", "record", "n = 2", "n = 3"), "thread", chain, loads("three of thread")},
		"another's head session": {`UPDATE threads SET link = (SELECT link FROM threads WHERE id = 'other') WHERE id = 'thread'`,
			"thread", heads, loads("three of thread")},
		"a plain link": {`UPDATE links SET record = x''`, "thread", heads, loads("three of thread")},
		"a small object's bytes": {swap("small", "data", smallOf("one"), smallOf("three")), object, gets("object of one"),
			loads("three of thread")},
		"a plain object": {`UPDATE small SET data = x'00' || 'object of one' WHERE ` + smallOf("one"), object,
			gets("object of one"), loads("three of thread")},
		"pins":        {swap("pins", "name", "n = 2", "n = 3"), "", pins, loads("three of thread")},
		"a plain pin": {`UPDATE pins SET name = 'a pin'`, "", pins, loads("three of thread")},
		"operations":  {swap("operations", "record", "n = 1", "n = 2"), "", operationsOf("w"), loads("three of thread")},
		"an operation's workspace": {`UPDATE operations SET workspace = 'other' WHERE n = 1`, "", operationsOf("other"),
			loads("three of thread")},
		"the states of workspaces": {swap("workspaces", "state", "id = 'thread'", "id = 'other'"), "thread", workspaces,
			loads("three of thread")},
		"the records of workspaces": {swap("workspaces", "record", "id = 'thread'", "id = 'other'"), "thread", workspaces,
			loads("three of thread")},
		"a state for a record": {`UPDATE workspaces SET record = state`, "thread", workspaces, loads("three of thread")},
		"a plain state":        {`UPDATE workspaces SET state = x'00'`, "thread", workspaces, loads("three of thread")},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			o := Options{Key: storetest.SealedKey()}
			s := openIn(t, dir, o)
			seedSealed(t, s)
			if err := x.sound(t, s); err != nil {
				t.Fatal(err)
			}
			if all := checkErrors(t, s); len(all) > 0 {
				t.Fatal(all)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			raw(t, filepath.Join(dir, databaseName), x.damage)
			s = openIn(t, dir, o)
			defer s.Close()
			err := x.read(t, s)
			wantKind(t, err, segno.KindCorrupt)
			if !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v does not name %q", err, x.want)
			}
			if err := x.sound(t, s); err != nil {
				t.Errorf("what has nothing to do with it: %v", err)
			}
			if len(checkErrors(t, s)) == 0 {
				t.Error("check found nothing")
			}
		})
	}
}

// TestSealedPacks makes a collection move sealed objects to another pack. Objects that are then swapped in
// that pack, or marked as plain, must be damage.
func TestSealedPacks(t *testing.T) {
	dir := t.TempDir()
	clock := storetest.NewClock()
	o := Options{Key: storetest.SealedKey(), Clock: clock.Now}
	s := openIn(t, dir, o)
	head, err := s.Commit(t.Context(), segno.Commit{ID: "base", Thread: "thread", Create: &segno.Thread{ID: "thread"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	if err != nil {
		t.Fatal(err)
	}
	names, _ := commitPackedTurns(t, s, head, 12, 3, 7)
	before := packNames(t, s)
	clock.Advance(2 * time.Hour)
	if done := collect(t, s); done.Objects != 10 {
		t.Fatalf("collected: %+v", done)
	}
	if after := packNames(t, s); slices.Equal(before, after) || len(after) == 0 {
		t.Fatalf("the packs are still %v", after)
	}
	checkClean(t, s)
	for what, query := range map[string]string{
		"changed places": `CREATE TEMP TABLE two AS SELECT name, at, length FROM objects WHERE pack <> 0;
			UPDATE objects SET (at, length) = (SELECT at, length FROM two WHERE two.name <> objects.name) WHERE pack <> 0`,
		"taken for plain": `UPDATE objects SET length = length / 8 * 8 WHERE pack <> 0`,
	} {
		for _, name := range []segno.Hash{names[3], names[7]} {
			if _, err := s.Objects().Get(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(dir, databaseName)
		raw(t, file, `CREATE TABLE was AS SELECT * FROM objects`)
		raw(t, file, query)
		for _, name := range []segno.Hash{names[3], names[7]} {
			_, err := s.Objects().Get(t.Context(), name)
			wantKind(t, err, segno.KindCorrupt)
			if !strings.Contains(err.Error(), name.String()) {
				t.Errorf("%s: %v does not name %s", what, err, name)
			}
		}
		if all := checkErrors(t, s); len(all) != 2 {
			t.Errorf("%s: check says %v", what, all)
		}
		raw(t, file, `DELETE FROM objects; INSERT INTO objects SELECT * FROM was; DROP TABLE was`)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSealedVersion verifies that a segno that does not support seals treats a sealed store as one of a newer
// version, and that a store without a key has the old version.
func TestSealedVersion(t *testing.T) {
	for want, key := range map[int][]byte{schemaVersion: nil, schemaVersion | 1<<16: storetest.SealedKey()} {
		s := openIn(t, t.TempDir(), Options{Key: key})
		defer s.Close()
		var version, tables int
		if err := s.db.QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version); err != nil || version != want {
			t.Errorf("the version is %d, %v", version, err)
		}
		if err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_schema WHERE name = 'seal'").
			Scan(&tables); err != nil || tables == 1 != (key != nil) {
			t.Errorf("%d tables for a mark, %v", tables, err)
		}
	}
}

// BenchmarkSealed measures the cost of a key. It alternates between stores with and without one, commits
// steps, and loads a line of 1,000.
func BenchmarkSealed(b *testing.B) {
	all := steps(1000)
	open := func(key []byte) *Store {
		s, err := openDir(b.Context(), b.TempDir(), Options{Key: key})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		return s
	}
	for b.Loop() {
		stores := []*Store{open(nil), open(storetest.SealedKey())}
		var puts, loads [2][]time.Duration
		heads := []segno.Head{begin(b, stores[0]), begin(b, stores[1])}
		for i, e := range all {
			for k := range 2 {
				which := (i + k) % 2
				c := stepCommit(heads[which], e, i)
				begun := time.Now()
				heads[which] = mustCommit(b, stores[which], c)
				puts[which] = append(puts[which], time.Since(begun))
			}
		}
		for range 15 {
			for which, s := range stores {
				fresh, err := openDir(b.Context(), s.dir, s.options)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := fresh.Head(b.Context(), "thread"); err != nil && segno.KindOf(err) != segno.KindNotFound {
					b.Fatal(err)
				}
				begun := time.Now()
				line, err := fresh.Load(b.Context(), heads[which].Head, segno.Window{Entries: true})
				loads[which] = append(loads[which], time.Since(begun))
				if err != nil || len(line.Commits) != len(all)+1 {
					b.Fatal(err)
				}
				if err := fresh.Close(); err != nil {
					b.Fatal(err)
				}
			}
		}
		for what, d := range map[string][2][]time.Duration{"put": puts, "head": loads} {
			plain, sealed := median(slices.Clone(d[0])), median(slices.Clone(d[1]))
			b.ReportMetric(float64(plain.Microseconds()), what+"-us")
			b.ReportMetric(float64(sealed.Microseconds()), what+"-sealed-us")
			b.ReportMetric(float64(sealed)/float64(plain), what+"-ratio")
		}
		for which, what := range []string{"bytes", "bytes-sealed"} {
			if err := stores[which].Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(sizeOf(b, stores[which].dir)), what)
		}
	}
}
