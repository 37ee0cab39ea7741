package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func openOwner(t *testing.T, url, schema string) *Owner {
	t.Helper()
	o, err := OpenOwner(t.Context(), url, Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return o
}

// tablesOf describes a schema's tables: their columns and indexes. The order of columns does not matter.
func tablesOf(t *testing.T, schema string) (all []string) {
	t.Helper()
	withSuperuser(t, func(conn *pgx.Conn) error {
		rows, err := conn.Query(t.Context(), `SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default) FROM information_schema.columns
				WHERE table_schema = $1
			UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = $1
			UNION ALL SELECT concat_ws(' ', tablename, policyname, qual) FROM pg_policies WHERE schemaname = $1 ORDER BY 1`, schema)
		if err == nil {
			all, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	})
	return all
}

// TestMigrateDownAndUp changes stores with data to each older version that has a way back, and to the newest one again.
// The tables of the older version are those that a build of that version made, and the contents stay.
func TestMigrateDownAndUp(t *testing.T) {
	for name, o := range map[string]Options{"plain": {}, "sealed": {Key: storetest.SealedKey()}, "tenant": {Tenant: "a tenant"}} {
		url := server.URL
		if o.Tenant != "" {
			url = withRole(t, "tenants")
		}
		s := openAt(t, url, o, func(*pgxpool.Config) {})
		fillSealed(t, s)
		want, newest := contentsOf(t, s), tablesOf(t, s.options.Schema)
		owner := openOwner(t, url, s.options.Schema)
		for range 2 {
			plan, err := owner.Plan(t.Context(), 1)
			if err != nil || len(plan) != Version-1 {
				t.Fatalf("%s: the plan is %v, %v", name, plan, err)
			}
			done, err := owner.Migrate(t.Context(), 1)
			if err != nil || fmt.Sprint(done) != fmt.Sprint(plan) {
				t.Fatalf("%s: planned %v, executed %v, %v", name, plan, done, err)
			}
			if name == "plain" {
				first := loadStored(t, "v1")
				old, here := strings.Join(tablesOf(t, first), "\n"), strings.Join(tablesOf(t, s.options.Schema), "\n")
				if strings.ReplaceAll(old, first, "") != strings.ReplaceAll(here, s.options.Schema, "") {
					t.Errorf("the tables of version 1 are\n%s\nwant\n%s", here, old)
				}
			}
			if done, err := owner.Migrate(t.Context(), 1); err != nil || len(done) > 0 {
				t.Errorf("%s: migrating again executed %v, %v", name, done, err)
			}
			again := openAt(t, url, s.options, func(*pgxpool.Config) {}) // this upgrades the store
			if got := contentsOf(t, again); got != want {
				t.Errorf("%s: the contents are\n%s\nwant\n%s", name, got, want)
			}
			if got := tablesOf(t, s.options.Schema); !slices.Equal(got, newest) {
				t.Errorf("%s: the tables are\n%s", name, strings.Join(got, "\n"))
			}
			if err := again.Rename(t.Context(), "thread", "", ""); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestMigrateRefuses verifies the errors of plans that are impossible, and that they change nothing.
func TestMigrateRefuses(t *testing.T) {
	s := openStore(t, Options{})
	owner := openOwner(t, server.URL, s.options.Schema)
	version := func() int64 { return numbers(t, s, `SELECT version FROM {}meta`)[0] }
	for to, want := range map[int]segno.Kind{-1: segno.KindInvalid, 0: segno.KindInvalid, Version + 1: segno.KindInvalid} {
		_, plan := owner.Plan(t.Context(), to)
		_, err := owner.Migrate(t.Context(), to)
		if err := errors.Join(wantKind(plan, want), wantKind(err, want)); err != nil {
			t.Errorf("to version %d: %v", to, err)
		}
	}
	withRole(t, "tenants")
	if err := owner.Grant(t.Context(), "tenants"); err != nil {
		t.Fatal(err)
	}
	if _, err := openOwner(t, withRole(t, "tenants"), s.options.Schema).Migrate(t.Context(), 1); segno.KindOf(err) != segno.KindRefused ||
		segno.HintOf(err) == "" {
		t.Errorf("as a role that does not own the tables: %v", err)
	}
	if got := version(); got != Version {
		t.Errorf("the version is %d", got)
	}
	execute(t, s, `UPDATE {}meta SET version = 99`)
	if _, err := owner.Migrate(t.Context(), 1); segno.KindOf(err) != segno.KindNewer {
		t.Errorf("from a newer version: %v", err)
	}
	if _, err := openOwner(t, server.URL, newSchema()).Plan(t.Context(), 1); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("without a store: %v", err)
	}
}

// TestEachMigrationHasAWayBack verifies that each migration can be undone or has a reason why not.
func TestEachMigrationHasAWayBack(t *testing.T) {
	for i, m := range migrations {
		if (len(m.down) == 0) != (m.keeps != "") {
			t.Errorf("version %d has %d statements back and the reason %q", i+1, len(m.down), m.keeps)
		}
	}
}

// killer ends the server's process of a connection before one of its statements, counted from 0.
type killer struct {
	t         *testing.T
	statement int
	killed    bool
}

func (k *killer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if k.statement == 0 {
		k.killed = true
		pid := conn.PgConn().PID()
		withSuperuser(k.t, func(conn *pgx.Conn) error {
			_, err := conn.Exec(k.t.Context(), `SELECT pg_terminate_backend($1, 60000)`, int32(pid))
			return err
		})
	}
	k.statement--
	return ctx
}

func (k *killer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// interruption is a change of a schema that loses its connection.
type interruption struct {
	tenant, stored string // the tenant to open, and the stored schema, or "" for a new one
	from, to       int    // versions; 0 means that Open creates the schema
}

// TestAnInterruptedMigration loses the connection before a statement of a creation, an upgrade or a migration back.
// The schema must have the old or the new tables and version, and the next attempt must succeed.
func TestAnInterruptedMigration(t *testing.T) {
	all := []interruption{{"", "v1", 1, Version}, {"", "v1", Version, 1}, {"", "", 0, 0}, {"one", "", 0, 0}}
	const statements = 50 // more than any of them has
	for _, seed := range soak.Seeds(t, 3, len(all)*statements) {
		x := all[seed%uint64(len(all))]
		n := int(seed/uint64(len(all))) % statements
		if x.from > 0 {
			n %= 12
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { interrupt(t, x, n) }) // its connections end with it
	}
}

func interrupt(t *testing.T, x interruption, n int) {
	schema, at := newSchema(), withRole(t, "tenants")
	if x.stored != "" {
		schema, at = loadStored(t, x.stored), server.URL
	}
	if x.from > 1 {
		if _, err := openOwner(t, at, schema).Migrate(t.Context(), x.from); err != nil {
			t.Fatal(err)
		}
	}
	before := tablesOf(t, schema)
	k := &killer{t: t, statement: n}
	// A call retries after a lost connection, so the attempt has no patience.
	attempt, err := connect(t.Context(), at, Options{Schema: schema, Tenant: x.tenant, Patience: 1},
		func(c *pgxpool.Config) { c.ConnConfig.Tracer = k })
	if err != nil {
		t.Fatal(err)
	}
	if x.to == 0 {
		err = attempt.migrate(t.Context())
	} else {
		_, err = (&Owner{attempt}).Migrate(t.Context(), x.to)
	}
	attempt.Close()
	if (err != nil) != k.killed {
		t.Fatalf("%+v, statement %d: %v", x, n, err)
	}
	isOld := slices.Equal(tablesOf(t, schema), before)
	if x.to > 0 {
		plan, err := openOwner(t, at, schema).Migrate(t.Context(), x.to)
		if err != nil || isOld != (len(plan) > 0) {
			t.Errorf("%+v, statement %d: the tables are the old ones: %v; then %v, %v", x, n, isOld, plan, err)
		}
	}
	s := openAt(t, at, Options{Schema: schema, Tenant: x.tenant}, func(*pgxpool.Config) {})
	if _, err := s.Commit(t.Context(), base("new")); err != nil {
		t.Errorf("%+v, statement %d: %v", x, n, err)
	}
	s.Close()
}
