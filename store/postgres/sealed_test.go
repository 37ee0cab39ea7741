package postgres

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestSealed runs the conformance tests about sealing, with a bucket and without.
func TestSealed(t *testing.T) {
	for name, bucket := range map[string]func(*testing.T) Bucket{"table": func(*testing.T) Bucket { return nil }, "bucket": inMemory} {
		t.Run(name, func(t *testing.T) {
			storetest.TestSealed(t, func(t *testing.T) storetest.Place {
				o := Options{Schema: newSchema(), Bucket: bucket(t)}
				return storetest.Place{
					Open: func(t *testing.T, key []byte) (segno.Store, error) {
						o := o
						o.Key = key
						s, err := Open(t.Context(), server.URL, o)
						if err != nil {
							return nil, err
						}
						return s, nil
					},
					Dump: func(t *testing.T) []byte { return dump(t, o) },
				}
			})
		})
	}
}

// dump returns every value of every row of a schema's tables, and the objects of the bucket.
func dump(t *testing.T, o Options) []byte {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	rows, err := pool.Query(t.Context(), `SELECT table_name FROM information_schema.tables WHERE table_schema = $1`, o.Schema)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 9 {
		t.Fatal(tables, err)
	}
	var all bytes.Buffer
	for _, table := range tables {
		rows, err := pool.Query(t.Context(), `SELECT * FROM `+o.Schema+`.`+table)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			for _, raw := range rows.RawValues() {
				all.Write(raw)
				all.WriteByte('\n')
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if o.Bucket == nil {
		return all.Bytes()
	}
	for _, name := range namesIn(t, o.Bucket) {
		data, err := o.Bucket.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(name + "\n")
		all.Write(data)
	}
	return all.Bytes()
}

// TestSealedStore runs the conformance tests on a store with a key.
func TestSealedStore(t *testing.T) {
	clock := storetest.NewClock()
	room := openStore(t, Options{Key: storetest.SealedKey()})
	again := func(t *testing.T, s segno.Store) segno.Store { return openStore(t, s.(*Store).options) }
	storetest.TestSome(t, 4, func(t *testing.T) segno.Store {
		t.Cleanup(func() { emptyStore(t, room) })
		return openStore(t, Options{Clock: clock.Now, Schema: room.options.Schema, Key: storetest.SealedKey()})
	}, storetest.Options{
		Clock: clock,
		Reopen: func(t *testing.T, s segno.Store) segno.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return again(t, s)
		},
		Another: again,
	})
}

// swap returns a statement that exchanges a column of two rows.
func swap(table, column, one, other string) string {
	return `UPDATE {}` + table + ` x SET ` + column + ` = y.` + column + ` FROM {}` + table + ` y WHERE (x.` + one + ` AND y.` + other +
		`) OR (x.` + other + ` AND y.` + one + `)`
}

// TestSealedRecordsOpenOnlyInTheirRow moves records to other rows, or replaces them with plain ones. A read
// must return KindCorrupt and name the record, and other records must be read as before.
func TestSealedRecordsOpenOnlyInTheirRow(t *testing.T) {
	name := segno.HashOf([]byte("object of next")).String()
	loadMiddle := func(ctx context.Context, s *Store) error { return load(ctx, s, "middle") }
	thread := func(ctx context.Context, s *Store) error {
		for _, err := range s.Threads(ctx, segno.ThreadQuery{IDPrefix: "thread"}) {
			return err
		}
		return nil
	}
	pins := func(ctx context.Context, s *Store) error {
		for _, err := range s.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
			return err
		}
		return nil
	}
	none := func(context.Context, *Store) error { return nil }
	for what, x := range map[string]struct {
		damage, want string
		read, sound  func(ctx context.Context, s *Store) error
	}{
		"entries of two commits":     {swap("commits", "entries", "id = 'next'", "id = 'far'"), "next", loadNext, loadMiddle},
		"entries along a line":       {swap("commits", "entries", "id = 'next'", "id = 'middle'"), "middle", loadNext, getNext},
		"checkpoints of two threads": {swap("commits", "checkpoint", "id = 'next'", "id = 'far'"), "next", loadNext, loadMiddle},
		"another parent": {`UPDATE {}commits SET depth = depth + 9, line = -1, parent = (SELECT n FROM {}commits
			WHERE id = 'far') WHERE id = 'next'`, "next", loadNext, loadMiddle},
		"seqs along a line": {`UPDATE {}commits SET seq = 99 WHERE id = 'middle'`, "next", loadNext, loadMiddle},
		"a commit's id": {`UPDATE {}commits SET id = CASE WHEN id = 'next' THEN 'nexu'::bytea ELSE 'next'::bytea END
			WHERE id = 'next'`, "nexu", func(ctx context.Context, s *Store) error { return load(ctx, s, "nexu") }, loadMiddle},
		"plain entries":      {`UPDATE {}commits SET entries = '\x0000' WHERE id = 'next'`, "next", loadNext, loadMiddle},
		"a plain checkpoint": {`UPDATE {}commits SET checkpoint = '\x0000' WHERE id = 'next'`, "next", loadNext, loadMiddle},
		"an object's bytes":  {swap("objects", "data", "size = 14", "size = 16"), name, getNext, loadNext},
		"a plain object": {`UPDATE {}objects SET data = '\x00' || 'object of next'::bytea WHERE size = 14`, name, getNext,
			loadNext},
		"the records of two threads": {swap("threads", "record", "id = 'thread'", "id = 'other'"), "thread", thread, loadNext},
		"a plain thread":             {`UPDATE {}threads SET record = '' WHERE id = 'thread'`, "thread", thread, loadNext},
		"another's head session": {swap("threads", "session", "id = 'thread'", "id = 'other'"), "thread", func(ctx context.Context,
			s *Store) error {
			_, err := s.Head(ctx, "thread")
			return err
		}, loadNext},
		"links": {swap("links", "record", "seq = 3", "seq = 2"), "other", func(ctx context.Context, s *Store) error {
			for _, err := range s.Chain(ctx, "other") {
				if err != nil {
					return err
				}
			}
			return nil
		}, loadNext},
		"pins": {swap("pins", "name", "n = (SELECT n FROM {}commits WHERE id = 'next')",
			"n = (SELECT n FROM {}commits WHERE id = 'far')"), "", pins, loadNext},
		"a plain pin": {`UPDATE {}pins SET name = 'plain'`, "", pins, loadNext},
		"an operation": {`UPDATE {}operations SET workspace = 'other'`, "op", func(ctx context.Context, s *Store) error {
			for _, err := range s.Operations(ctx, "other") {
				return err
			}
			return nil
		}, loadNext},
		"a workspace's state": {`UPDATE {}workspaces SET state = record`, "w", func(ctx context.Context, s *Store) error {
			_, err := s.Workspace(ctx, "w")
			return err
		}, loadNext},
		"the mark": {`DELETE FROM {}seal`, "mark", func(ctx context.Context, s *Store) error {
			again, err := Open(ctx, server.URL, s.options)
			if err == nil {
				again.Close()
			}
			return err
		}, loadNext},
	} {
		if x.read == nil {
			continue
		}
		if x.sound == nil {
			x.sound = none
		}
		t.Run(what, func(t *testing.T) {
			s := openStore(t, Options{Key: storetest.SealedKey()})
			fillSealed(t, s)
			for _, read := range []func(context.Context, *Store) error{x.read, x.sound} {
				if err := read(t.Context(), s); err != nil && segno.KindOf(err) != segno.KindNotFound {
					t.Fatal(err)
				}
			}
			if n := damagedIn(t, s); n != 0 {
				t.Errorf("the check of a whole store finds %d damaged records", n)
			}
			execute(t, s, x.damage)
			if what != "the mark" && damagedIn(t, s) == 0 {
				t.Error("the check finds no damage")
			}
			if err := x.read(t.Context(), s); segno.KindOf(err) != segno.KindCorrupt || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v (%v); want it to be damage and to name %q", err, segno.KindOf(err), x.want)
			}
			if err := x.sound(t.Context(), s); err != nil {
				t.Errorf("what has nothing to do with it: %v", err)
			}
		})
	}
}

// fillSealed creates two threads with one record of each kind.
func fillSealed(t *testing.T, s *Store) {
	t.Helper()
	fill(t, s, "large")
	head, err := s.Commit(t.Context(), base("other"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := turn(t.Context(), s, head, "far")
	if err != nil {
		t.Fatal(err)
	}
	c.Link = &segno.Link{Agent: "claude", Session: "another"}
	c.Pin = &segno.Pin{Checkpoint: "next", Name: "one"}
	c.Workspace = &segno.WorkspaceState{Workspace: "w"}
	c.Operation = &segno.Operation{ID: "op", Workspace: "w", Thread: "other"}
	if head, err = s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err = s.Commit(t.Context(), segno.Commit{ID: "pin", Thread: "other", Expect: head.Head, Pin: &segno.Pin{Checkpoint: "far",
		Name: "two"}, Link: &segno.Link{Agent: "claude", Session: "third"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutWorkspace(t.Context(), segno.WorkspaceRecord{ID: "w", Path: "/w"}); err != nil {
		t.Fatal(err)
	}
}

// TestOlderVersionRefusesASealedStore verifies that a segno that does not support seals treats a sealed store
// as one of a newer version.
func TestOlderVersionRefusesASealedStore(t *testing.T) {
	s := openStore(t, Options{Key: storetest.SealedKey()})
	var version int
	if err := s.pool.QueryRow(t.Context(), s.sql(`SELECT version FROM {}meta`)).Scan(&version); err != nil || version <= 1<<16 {
		t.Fatalf("the version is %d, %v", version, err)
	}
	plain := openStore(t, Options{})
	if err := plain.pool.QueryRow(t.Context(), plain.sql(`SELECT version FROM {}meta`)).Scan(&version); err != nil ||
		version != schemaVersion {
		t.Fatalf("the version without a key is %d, %v", version, err)
	}
}
