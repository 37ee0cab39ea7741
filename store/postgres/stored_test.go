package postgres

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/store/storetest"
)

// writeStored makes the fixtures of this build:
//
//	go test . -run TestStoresOfEarlierBuilds -write-stored v3
//
// The name is that of the version. A build that changes the version adds its own fixtures, and changes none.
var writeStored = flag.String("write-stored", "", "write testdata/stored/`NAME`.sql, NAME-sealed.sql and NAME.json with this build")

// makeStored dumps a new store with records of each kind, and describes its contents.
func makeStored(t *testing.T, name string, key []byte) {
	if err := serverrig.PostgresPrograms(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, Options{Key: key})
	fillSealed(t, s)
	out, err := exec.CommandContext(t.Context(), "pg_dump", "--inserts", "--no-owner", "--no-privileges", "--no-comments", "-n", s.options.Schema,
		server.URL).Output()
	if err != nil {
		t.Fatal(err)
	}
	noise := regexp.MustCompile(`(?m)^(--.*|\\(un)?restrict.*|SET .*|SELECT pg_catalog.set_config.*|)\n`)
	text := strings.ReplaceAll(noise.ReplaceAllString(string(out), ""), s.options.Schema, "stored")
	contents := strings.TrimSuffix(name, "-sealed") + ".json"
	for file, data := range map[string]string{name + ".sql": text, contents: contentsOf(t, s)} {
		if err := os.WriteFile(filepath.Join("testdata", "stored", file), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// loadStored restores a dump of a store that an earlier build made, in a new schema.
func loadStored(t *testing.T, name string) (schema string) {
	t.Helper()
	schema = newSchema()
	dump, err := os.ReadFile(filepath.Join("testdata", "stored", name+".sql"))
	if err != nil {
		t.Fatal(err)
	}
	withSuperuser(t, func(conn *pgx.Conn) error {
		text := strings.ReplaceAll(strings.ReplaceAll(string(dump), "stored.", schema+"."), "SCHEMA stored", "SCHEMA "+schema)
		_, err := conn.Exec(t.Context(), text)
		return err
	})
	return schema
}

// TestStoresOfEarlierBuilds opens the stores in testdata/stored, which builds of those versions made and pg_dump wrote. The
// contents must be those that these builds read. v1.sql has no rows: its records had a form that no release wrote.
func TestStoresOfEarlierBuilds(t *testing.T) {
	if *writeStored != "" {
		makeStored(t, *writeStored, nil)
		makeStored(t, *writeStored+"-sealed", storetest.SealedKey())
	}
	files, err := filepath.Glob(filepath.Join("testdata", "stored", "*.sql"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sql")
		version, isSealed := strings.CutSuffix(name, "-sealed")
		want, err := os.ReadFile(filepath.Join("testdata", "stored", version+".json"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		o := Options{Schema: loadStored(t, name), MustExist: true}
		if isSealed {
			o.Key = storetest.SealedKey()
		}
		if plan, err := openOwner(t, server.URL, o.Schema).Plan(t.Context(), Version); err != nil || (len(plan) == 0) != (version == fmt.Sprint("v", Version)) {
			t.Errorf("%s: the plan is %v, %v", name, plan, err)
		}
		s := openStore(t, o)
		if got := contentsOf(t, s); got != string(want) {
			t.Errorf("%s: the contents are\n%s", name, got)
		}
		if _, err := s.Commit(t.Context(), base("new")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// contentsOf returns all that the methods of a store read, as JSON.
func contentsOf(t *testing.T, s segno.Store) string {
	t.Helper()
	var out strings.Builder
	add := func(x any, err error) {
		t.Helper()
		data, marshalErr := json.Marshal(x)
		if err != nil || marshalErr != nil {
			t.Fatal(err, marshalErr)
		}
		out.Write(append(data, '\n'))
	}
	ctx := t.Context()
	for thread := range addAll(add, s.Threads(ctx, segno.ThreadQuery{})) {
		head, err := s.Head(ctx, thread.ID)
		add(head, err)
		line, err := s.Load(ctx, head.Head, segno.Window{Entries: true})
		add(line, err)
		for range addAll(add, s.(segno.Chains).Chain(ctx, thread.ID)) {
		}
		for c := range addAll(add, s.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread.ID})) {
			for _, name := range c.Refs() {
				add(s.Objects().Get(ctx, name))
			}
		}
	}
	for range addAll(add, s.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true})) {
	}
	for w := range addAll(add, s.(segno.Workspaces).FindWorkspaces(ctx, nil, 0, 0)) {
		for range addAll(add, s.(segno.Workspaces).Operations(ctx, w.ID)) {
		}
	}
	return out.String()
}

// addAll yields the elements of a list after it has added them.
func addAll[T any](add func(any, error), all iter.Seq2[T, error]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for x, err := range all {
			add(x, err)
			if !yield(x) {
				return
			}
		}
	}
}
