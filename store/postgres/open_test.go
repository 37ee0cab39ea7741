package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestOpenedAtOnce opens a store that does not exist from many goroutines: it is created once.
func TestOpenedAtOnce(t *testing.T) {
	for range 4 {
		o := Options{Schema: newSchema()}
		const openers = 8
		stores := make([]*Store, openers)
		errs := make([]error, openers)
		var group sync.WaitGroup
		for i := range openers {
			group.Go(func() { stores[i], errs[i] = Open(t.Context(), server.URL, o) })
		}
		group.Wait()
		for i, s := range stores {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			defer s.Close()
			if s.id == "" || s.id != stores[0].id {
				t.Errorf("opener %d sees store %q, another %q", i, s.id, stores[0].id)
			}
		}
		if _, err := stores[0].Commit(t.Context(), base("thread")); err != nil {
			t.Fatal(err)
		}
		if _, err := stores[openers-1].Head(t.Context(), "thread"); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRefusesANewerStore(t *testing.T) {
	s := openStore(t, Options{})
	execute(t, s, `UPDATE {}meta SET version = 99`)
	_, err := Open(t.Context(), server.URL, s.options)
	if segno.KindOf(err) != segno.KindNewer || !strings.Contains(err.Error(), "99") {
		t.Errorf("opening: %v", err)
	}
	var version int
	if err := s.pool.QueryRow(t.Context(), s.sql(`SELECT version FROM {}meta`)).Scan(&version); err != nil || version != 99 {
		t.Errorf("the version is %d, %v", version, err)
	}
}

func TestAMigrationThatFailsLeavesNothing(t *testing.T) {
	s := openStore(t, Options{})
	o := Options{Schema: newSchema()}
	execute(t, s, `CREATE SCHEMA `+o.Schema)
	execute(t, s, `CREATE TABLE `+o.Schema+`.objects (mine text)`)
	if _, err := Open(t.Context(), server.URL, o); err == nil {
		t.Fatal("a schema with another's tables was taken over")
	}
	var tables int
	err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM information_schema.tables WHERE table_schema = $1`, o.Schema).Scan(&tables)
	if err != nil || tables != 1 {
		t.Errorf("%d tables are left, %v", tables, err)
	}
}

func TestOpenErrors(t *testing.T) {
	for _, x := range []struct {
		url, schema string
		want        segno.Kind
	}{
		{"postgres://%zz", "", segno.KindInvalid},
		{server.URL, `a"; DROP SCHEMA public; --`, segno.KindInvalid},
		{server.URL, strings.Repeat("x", 64), segno.KindInvalid},
		{strings.Replace(server.URL, "/postgres?", "/no_such_database?", 1), "", segno.KindIO},
	} {
		_, err := Open(t.Context(), x.url, Options{Schema: x.schema})
		if segno.KindOf(err) != x.want || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s, schema %q: %v (%v)", x.url, x.schema, err, segno.KindOf(err))
		}
	}
	secret := strings.Replace(server.URL, "postgres@", "postgres:hunter2@", 1)
	_, err := Open(t.Context(), strings.Replace(secret, "/postgres?", "/no_such_database?", 1), Options{})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error is %v", err)
	}
}

// TestBehindAPooler commits and reads in the modes that leave no prepared statement on a connection, as a
// pooler in transaction mode requires.
func TestBehindAPooler(t *testing.T) {
	for _, mode := range []string{"exec", "cache_describe", "describe_exec", "simple_protocol"} {
		withAndWithoutTenant(t, func(t *testing.T, open func(string, Options, func(*pgxpool.Config)) *Store) {
			s := open("&synchronous_commit=off&default_query_exec_mode="+mode, Options{}, func(*pgxpool.Config) {})
			fill(t, s, noise(600<<10))
			head, err := s.Head(t.Context(), "thread")
			if err != nil {
				t.Fatal(err)
			}
			c, err := turn(t.Context(), s, head, "everything")
			if err != nil {
				t.Fatal(err)
			}
			c.Needs = []segno.Hash{segno.HashOf([]byte("object of next"))}
			c.Checkpoint.Meta = map[string]string{"a": "b"}
			c.Link = &segno.Link{Session: "s"}
			c.Pin = &segno.Pin{Checkpoint: "next", Name: "a pin"}
			c.Workspace = &segno.WorkspaceState{Workspace: "w", Thread: "thread"}
			c.Operation = &segno.Operation{ID: "op", Workspace: "w", Thread: "thread"}
			c.Move = &segno.Move{Head: segno.Self, Tip: "next"}
			if head, err = s.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if again, err := s.Commit(t.Context(), c); err != nil || again != head {
				t.Errorf("again: %v, %v; want %v", again, err, head)
			}
			if err := load(t.Context(), s, "everything"); err != nil {
				t.Error(err)
			}
			if err := s.PutWorkspace(t.Context(), segno.WorkspaceRecord{ID: "w", Path: "/w"}); err != nil {
				t.Error(err)
			}
			found := ""
			for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{Thread: "thread", Meta: c.Checkpoint.Meta,
				IDPrefix: "every", Before: 99, Limit: 3}) {
				found += fmt.Sprint(c.ID, err)
			}
			for x, err := range s.Threads(t.Context(), segno.ThreadQuery{Session: "s", TopLevel: true, Limit: 1}) {
				found += fmt.Sprint(x.ID, err)
			}
			for w, err := range s.FindWorkspaces(t.Context(), []string{"/w"}, 0, 0) {
				found += fmt.Sprint(w.ID, err)
			}
			if found != "everything<nil>thread<nil>w<nil>" {
				t.Error(found)
			}
			if err := s.Release(t.Context(), take(t, s)); err != nil {
				t.Error(err)
			}
			if _, err := s.Collect(t.Context(), segno.CollectPolicy{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOpenPool opens a store on a pool that the test has opened, and which remains open after the store.
func TestOpenPool(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := OpenPool(t.Context(), pool, Options{Schema: newSchema()})
	if err != nil {
		t.Fatal(err)
	}
	head, err := s.Commit(t.Context(), base("thread"))
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	next, err := turn(t.Context(), s, head, "next")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(cancelled, next); segno.KindOf(err) != segno.KindCancelled {
		t.Errorf("a commit with a cancelled context: %v", err)
	}
	if got, err := s.Head(t.Context(), "thread"); err != nil || got != head {
		t.Errorf("the head is %+v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool after the store was closed: %v", err)
	}
}
