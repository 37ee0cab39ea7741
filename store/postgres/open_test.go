package postgres

import (
	"strings"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
)

// TestOpenedAtOnce: many open a store that is not there, and it is made once.
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

func TestANewerStoreIsLeftAlone(t *testing.T) {
	s := openStore(t, Options{})
	meddle(t, s, `UPDATE {}meta SET version = 99`)
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
	meddle(t, s, `CREATE SCHEMA `+o.Schema)
	meddle(t, s, `CREATE TABLE `+o.Schema+`.objects (mine text)`)
	if _, err := Open(t.Context(), server.URL, o); err == nil {
		t.Fatal("a schema with another's tables was taken over")
	}
	var tables int
	err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM information_schema.tables WHERE table_schema = $1`, o.Schema).Scan(&tables)
	if err != nil || tables != 1 {
		t.Errorf("%d tables are left, %v", tables, err)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
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
