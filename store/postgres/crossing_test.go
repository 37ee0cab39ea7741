package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// twoTenants is a schema of a role that is not used otherwise, with the tenants one and two. Two programs have them open,
// with a role that owns nothing, and share a pool of two connections.
type twoTenants struct {
	ownerURL, appURL string
	owner            *Owner
	pool             *pgxpool.Pool
	clock            *storetest.Clock
	one, two         *Store
}

func openTwoTenants(t *testing.T, bucket Bucket) *twoTenants {
	t.Helper()
	x := &twoTenants{ownerURL: withRole(t, "tables_owner"), appURL: withRole(t, "tenants"), clock: storetest.NewClock()}
	o := Options{Schema: newSchema(), Bucket: bucket, Clock: x.clock.Now}
	var err error
	if x.owner, err = OpenOwner(t.Context(), x.ownerURL, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.owner.Close() })
	for _, name := range []string{"one", "two"} {
		if err := x.owner.CreateTenant(t.Context(), name, "", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.owner.Grant(t.Context(), "tenants"); err != nil {
		t.Fatal(err)
	}
	if x.pool, err = pgxpool.New(t.Context(), x.appURL+"&pool_max_conns=2"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.pool.Close)
	for name, s := range map[string]**Store{"one": &x.one, "two": &x.two} {
		o.Tenant = name
		if *s, err = OpenPool(t.Context(), x.pool, o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*s).Close() })
	}
	return x
}

// countOf returns the number of elements, or the first error.
func countOf[T any](all iter.Seq2[T, error]) (n int, err error) {
	for _, err = range all {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// wantKind returns an error unless err has a kind.
func wantKind(err error, want segno.Kind) error {
	if segno.KindOf(err) != want {
		return fmt.Errorf("%v (%v), want %v", err, segno.KindOf(err), want)
	}
	return nil
}

func wantNone[T any](all iter.Seq2[T, error]) error {
	n, err := countOf(all)
	if err == nil && n > 0 {
		err = fmt.Errorf("it yields %d", n)
	}
	return err
}

// emptyReads has a call of each method of a store whose result in an empty store is known. The ids are those of a
// [storetest.DamageTrial] in another tenant.
func emptyReads(ctx context.Context, x *twoTenants) map[string]func(*Store) error {
	const thread = "thread 0"
	var anyCommit segno.CommitID
	for c, err := range x.one.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread}) {
		if err == nil {
			anyCommit = c.ID
		}
	}
	object := segno.HashOf([]byte("a small object"))
	trace := func(context.Context, segno.Objects, segno.Checkpoint, func(segno.Hash) bool) error { return nil }
	return map[string]func(*Store) error{
		"Head": func(s *Store) error { _, err := s.Head(ctx, thread); return wantKind(err, segno.KindNotFound) },
		"Load": func(s *Store) error {
			_, err := s.Load(ctx, anyCommit, segno.Window{Entries: true})
			return wantKind(err, segno.KindNotFound)
		},
		"Checkpoints": func(s *Store) error {
			return errors.Join(wantNone(s.Checkpoints(ctx, segno.CheckpointQuery{})), wantNone(s.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true})),
				wantNone(s.Checkpoints(ctx, segno.CheckpointQuery{Key: "turn key"})), wantNone(s.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread})),
				wantNone(s.Checkpoints(ctx, segno.CheckpointQuery{IDPrefix: string(anyCommit)})))
		},
		"Threads": func(s *Store) error {
			return errors.Join(wantNone(s.Threads(ctx, segno.ThreadQuery{})), wantNone(s.Threads(ctx, segno.ThreadQuery{Session: "session"})),
				wantNone(s.Threads(ctx, segno.ThreadQuery{Phase: segno.PhaseDone})))
		},
		"Rename": func(s *Store) error { return wantKind(s.Rename(ctx, thread, "", "another"), segno.KindNotFound) },
		"Delete": func(s *Store) error { return wantKind(s.Delete(ctx, thread), segno.KindNotFound) },
		"Chain": func(s *Store) error {
			_, err := countOf(s.Chain(ctx, thread))
			return wantKind(err, segno.KindNotFound)
		},
		"Wait": func(s *Store) error { _, err := s.Wait(ctx, thread, 0); return wantKind(err, segno.KindNotFound) },
		"Acquire": func(s *Store) error {
			_, err := s.Acquire(ctx, segno.Lease{Thread: thread, Owner: "two", Expires: time.Now().Add(time.Hour)})
			return wantKind(err, segno.KindNotFound)
		},
		"Release": func(s *Store) error {
			return wantKind(s.Release(ctx, segno.Lease{Thread: "thread 1", Epoch: 1}), segno.KindNotFound)
		},
		"LeaseOf": func(s *Store) error { _, err := s.LeaseOf(ctx, "thread 1"); return wantKind(err, segno.KindNotFound) },
		"LastHolder": func(s *Store) error {
			_, err := s.LastHolder(ctx, "thread 1")
			return wantKind(err, segno.KindNotFound)
		},
		"Workspace": func(s *Store) error {
			_, err := s.Workspace(ctx, "workspace")
			return wantKind(err, segno.KindNotFound)
		},
		"FindWorkspaces": func(s *Store) error {
			return errors.Join(wantNone(s.FindWorkspaces(ctx, nil, 0, 0)), wantNone(s.FindWorkspaces(ctx, []string{"/work"}, 0, 0)))
		},
		"Operations": func(s *Store) error { return wantNone(s.Operations(ctx, "workspace")) },
		"Objects": func(s *Store) error {
			_, err := s.Objects().Get(ctx, object)
			err = wantKind(err, segno.KindNotFound)
			if has, hasErr := s.Objects().Has(ctx, object); has || hasErr != nil {
				err = fmt.Errorf("Has: %v, %v", has, hasErr)
			}
			keep := s.Objects().Keep(ctx, segno.Staged{Objects: []segno.Object{{Name: object}}})
			return errors.Join(err, wantKind(keep, segno.KindNotFound))
		},
		"Commit": func(s *Store) error {
			_, err := s.Commit(ctx, segno.Commit{ID: "x", Thread: thread, Parent: anyCommit, Expect: anyCommit, Checkpoint: &segno.Checkpoint{}})
			_, fork := s.Commit(ctx, segno.Commit{ID: "x", Thread: "x", Create: &segno.Thread{ID: "x"}, Parent: anyCommit, Checkpoint: &segno.Checkpoint{}})
			_, needs := s.Commit(ctx, segno.Commit{ID: "x", Thread: "x", Create: &segno.Thread{ID: "x"}, Needs: []segno.Hash{object},
				Checkpoint: &segno.Checkpoint{State: &segno.Document{Data: object}}})
			return errors.Join(wantKind(err, segno.KindNotFound), wantKind(fork, segno.KindNotFound), wantKind(needs, segno.KindNotFound))
		},
		"Collect": func(s *Store) error {
			got, err := s.Collect(ctx, segno.CollectPolicy{Trace: trace})
			if err == nil && got != (segno.Collection{}) {
				err = fmt.Errorf("%+v", got)
			}
			return err
		},
		"Erase": func(s *Store) error {
			got, err := s.Erase(ctx, segno.CollectPolicy{Trace: trace})
			if err == nil && got != (segno.Collection{}) {
				err = fmt.Errorf("%+v", got)
			}
			return err
		},
		"Check": func(s *Store) error {
			got, err := s.Check(ctx, segno.CheckPolicy{Trace: trace}, func(error) bool { return true })
			if err == nil && got != (segno.Checked{}) {
				err = fmt.Errorf("%+v", got)
			}
			return err
		},
		"InTx": func(s *Store) error {
			return s.InTx(ctx, "count", "", func(ctx context.Context, tx pgx.Tx) error {
				var threads int
				err := tx.QueryRow(ctx, s.sql(`SELECT count(*) FROM {}threads`)).Scan(&threads)
				if err == nil && threads != 0 {
					err = fmt.Errorf("it sees %d threads", threads)
				}
				return err
			})
		},
		"OnConn": func(s *Store) error {
			return s.OnConn(ctx, "count", "", func(ctx context.Context, conn Conn) error {
				var threads int
				err := conn.QueryRow(ctx, s.sql(`SELECT count(*) FROM {}threads`)).Scan(&threads)
				if err == nil && threads != 0 {
					err = fmt.Errorf("it sees %d threads", threads)
				}
				return err
			})
		},
		"UseTenant": func(s *Store) error {
			return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
				var threads int
				var tenant int32
				err := s.UseTenant(ctx, tx)
				if err == nil {
					err = tx.QueryRow(ctx, s.sql(`SELECT count(*), `+tenantNumber+` FROM {}threads`)).Scan(&threads, &tenant)
				}
				if err == nil && (threads != 0 || tenant != s.tenant) {
					err = fmt.Errorf("the tenant %d sees %d threads", tenant, threads)
				}
				return err
			})
		},
		"Separate": func(s *Store) error { // of a table of another role
			err := s.InTx(ctx, "separate", "", func(ctx context.Context, tx pgx.Tx) error { return s.Separate(ctx, tx, "threads") })
			if err == nil {
				return errors.New("it changed a table")
			}
			return nil
		},
		"PutWorkspace": func(s *Store) error { return nil }, // the second trial calls it
		"Close":        func(s *Store) error { return nil },
	}
}

// TestNothingCrosses fills a tenant and calls every method in another tenant, which must behave as in an empty store.
// Then the other tenant writes records with the same ids, and deletes, collects and erases them. Each row and each body
// of the first one must stay as it is.
func TestNothingCrosses(t *testing.T) {
	for name, bucket := range map[string]Bucket{"table": nil, "bucket": inMemory(t)} {
		t.Run(name, func(t *testing.T) {
			x := openTwoTenants(t, bucket)
			fill(t, x.one, noise(600<<10))
			first := storetest.NewDamageTrial(t, x.one)
			want := rowsOf(t, x.one)
			unchanged := func(after string) {
				t.Helper()
				if rowsOf(t, x.one) != want {
					t.Errorf("%s: rows or bodies of the other tenant have changed", after)
				}
				if silent := first.Silent(t.Context(), x.one); silent != "" {
					t.Errorf("%s: the other tenant: %s", after, silent)
				}
			}
			reads := emptyReads(t.Context(), x)
			for method := range reflect.TypeFor[*Store]().Methods() {
				if reads[method.Name] == nil {
					t.Errorf("method %s is not tried", method.Name)
				}
			}
			for _, method := range slices.Sorted(maps.Keys(reads)) {
				if err := reads[method](x.two); err != nil {
					t.Errorf("%s: %v", method, err)
				}
			}
			unchanged("reads")
			if rows := rowsOf(t, x.two); len(rows) > 21*len(allTables) { // the header and the end of each binary copy
				t.Error("refused calls have left rows")
			}
			fill(t, x.two, noise(600<<10))
			second := storetest.NewDamageTrial(t, x.two)
			unchanged("writes of the same ids")
			if silent := second.Silent(t.Context(), x.two); silent != "" {
				t.Error(silent)
			}
			x.clock.Advance(100 * time.Hour)
			for thread, err := range x.two.Threads(t.Context(), segno.ThreadQuery{}) {
				if err == nil {
					err = x.two.Delete(t.Context(), thread.ID)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			policy := segno.CollectPolicy{Trace: func(context.Context, segno.Objects, segno.Checkpoint, func(segno.Hash) bool) error { return nil }}
			erased, err := x.two.Erase(t.Context(), policy)
			if err != nil || erased.Objects == 0 || erased.Checkpoints == 0 {
				t.Errorf("the erasure deleted %+v, %v", erased, err)
			}
			if _, err := x.two.Collect(t.Context(), policy); err != nil {
				t.Error(err)
			}
			unchanged("an erasure and a collection")
		})
	}
}

// TestSQLOfATenant executes SQL as roles of programs, for tenant two or for none. It must not see, change or
// add rows of tenant one.
func TestSQLOfATenant(t *testing.T) {
	x := openTwoTenants(t, nil)
	storetest.NewDamageTrial(t, x.one)
	fillSealed(t, x.two)
	if err := x.owner.CreateTenant(t.Context(), "three", "tables_owner", nil); err != nil {
		t.Fatal(err)
	}
	one, two := fmt.Sprint(x.one.tenant), fmt.Sprint(x.two.tenant)
	withSuperuser(t, func(conn *pgx.Conn) (err error) {
		for _, table := range allTables {
			_, analyzeErr := conn.Exec(t.Context(), x.one.sql(`ANALYZE {}`+table))
			err = errors.Join(err, analyzeErr)
		}
		return err
	})
	want, tables := rowsOf(t, x.one), slices.DeleteFunc(slices.Clone(allTables[:]), func(name string) bool { return name == "bodies" })
	for who, url := range map[string]string{"program": x.appURL, "owner": x.ownerURL} {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		as := func(tenant string) {
			t.Helper()
			if _, err := conn.Exec(t.Context(), `SELECT set_config('segno.tenant', $1, false)`, tenant); err != nil {
				t.Fatal(err)
			}
		}
		affected := func(query string) int64 {
			t.Helper()
			tag, err := conn.Exec(t.Context(), x.two.sql(query))
			if err != nil {
				t.Errorf("%s: %s: %v", who, query, err)
			}
			return tag.RowsAffected()
		}
		for _, table := range tables {
			for _, none := range []string{"", "0", "-1", "99999"} {
				as(none)
				if n := affected(`SELECT * FROM {}` + table); n != 0 {
					t.Errorf("%s: as tenant %q, %s has %d rows", who, none, table, n)
				}
			}
			as(two)
			for _, query := range []string{`SELECT * FROM {}%s WHERE tenant <> %[2]s`, `SELECT * FROM {}%s WHERE tenant = %[3]s`,
				`UPDATE {}%s SET tenant = tenant WHERE tenant <> %[2]s`, `DELETE FROM {}%s WHERE tenant <> %[2]s`,
				`UPDATE {}%s x SET tenant = x.tenant FROM {}%[1]s y WHERE y.tenant <> %[2]s`,
				`SELECT FROM pg_stats WHERE tablename = '%s' AND '%[2]s' <> '%[3]s' AND schemaname = '` + x.two.options.Schema + `'`} {
				if n := affected(fmt.Sprintf(query, table, two, one)); n != 0 {
					t.Errorf("%s: %s concerns %d rows", who, fmt.Sprintf(query, table, two, one), n)
				}
			}
			if n := affected(`UPDATE {}` + table + ` SET tenant = tenant`); n == 0 {
				t.Errorf("%s: the tenant cannot change its own rows of %s", who, table)
			}
			for _, query := range []string{`UPDATE {}%s SET tenant = %[2]s`, `INSERT INTO {}%s SELECT * FROM {}%[1]s; UPDATE {}%[1]s SET tenant = %[2]s`,
				`CREATE POLICY mine ON {}%s USING (true)`, `TRUNCATE {}%s`, `SET row_security = off; SELECT * FROM {}%s`} {
				if who == "owner" && !strings.HasPrefix(query, "UPDATE") && !strings.HasPrefix(query, "INSERT") {
					continue // it may change its tables
				}
				if _, err := conn.Exec(t.Context(), x.two.sql(fmt.Sprintf(query, table, one))); err == nil {
					t.Errorf("%s: executed %s", who, fmt.Sprintf(query, table, one))
				}
			}
		}
		as("3")
		if _, err := conn.Exec(t.Context(), x.two.sql(`INSERT INTO {}pins VALUES (1, '')`)); (err == nil) != (who == "owner") {
			t.Errorf("%s: a row of a tenant with the login of the owner: %v", who, err)
		}
		as(two)
		if n := affected(`SELECT * FROM {}tenants WHERE name <> 'two'`); who == "program" && n != 0 {
			t.Errorf("%s: it sees %d other tenants", who, n)
		}
	}
	if rowsOf(t, x.one) != want {
		t.Error("rows of the other tenant have changed")
	}
}

// TestEveryTableHasAPolicy verifies that each table with rows of tenants has a policy that applies to the owner, too, and
// that each unique index begins with the tenant: otherwise an error about a duplicate would reveal another tenant's row.
func TestEveryTableHasAPolicy(t *testing.T) {
	x := openTwoTenants(t, nil)
	for what, query := range map[string]string{
		"tables without a policy": `SELECT relname FROM pg_class c WHERE relkind = 'r' AND relnamespace = $1::regnamespace AND relname <> 'meta'
			AND NOT (relrowsecurity AND relforcerowsecurity AND EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid))`,
		"indexes across tenants": `SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
			JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] WHERE c.relnamespace = $1::regnamespace
			AND c.relname NOT IN ('meta', 'tenants') AND i.indisunique AND a.attname <> 'tenant'`,
	} {
		rows, err := x.pool.Query(t.Context(), query, x.one.options.Schema)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", what, found, err)
		}
	}
}

// TestDumpOfATenant dumps one tenant as docs/tenants.md describes: with its own role and without the rows of others.
func TestDumpOfATenant(t *testing.T) {
	if err := serverrig.PostgresPrograms(t.Context()); err != nil {
		t.Fatal(err)
	}
	x := openTwoTenants(t, nil)
	for s, thread := range map[*Store]segno.ThreadID{x.one: "thread of one", x.two: "thread of two"} {
		if _, err := s.Commit(t.Context(), base(thread)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "pg_dump", "--enable-row-security", "--data-only", "-n", x.one.options.Schema,
		"-d", strings.TrimSuffix(x.appURL, "&synchronous_commit=off"))
	cmd.Env = append(os.Environ(), fmt.Sprintf("PGOPTIONS=-c segno.tenant=%d", x.one.tenant))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), hex.EncodeToString([]byte("thread of one"))) ||
		strings.Contains(string(out), hex.EncodeToString([]byte("thread of two"))) || strings.Contains(string(out), "\ttwo\t") {
		t.Errorf("%v\n%s", err, out)
	}
}
