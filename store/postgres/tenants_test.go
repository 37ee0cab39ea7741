package postgres

import (
	"bytes"
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

// withSuperuser calls f with a connection that row-level security does not restrict.
func withSuperuser(t testing.TB, f func(conn *pgx.Conn) error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err == nil {
		defer conn.Close(t.Context())
		err = f(conn)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// withRole returns the URL of the test server for a role that may create schemas and that row-level security restricts.
func withRole(t testing.TB, role string) string {
	t.Helper()
	withSuperuser(t, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), `DO $$ BEGIN CREATE ROLE `+role+` LOGIN; GRANT CREATE ON DATABASE postgres TO `+role+`;
			EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$`)
		return err
	})
	return strings.Replace(server.URL, "postgres@", role+"@", 1) + "&synchronous_commit=off"
}

// withAndWithoutTenant runs a test on a store without tenants and on a tenant. open opens another store at each call.
func withAndWithoutTenant(t *testing.T, test func(t *testing.T, open func(parameters string, o Options, adjust func(*pgxpool.Config)) *Store)) {
	for _, tenant := range []string{"", "one"} {
		t.Run(fmt.Sprintf("tenant %q", tenant), func(t *testing.T) {
			url := server.URL
			if tenant != "" {
				url = withRole(t, "tenants")
			}
			test(t, func(parameters string, o Options, adjust func(*pgxpool.Config)) *Store {
				o.Tenant = tenant
				return openAt(t, url+parameters, o, adjust)
			})
		})
	}
}

func openTenant(t testing.TB, o Options) *Store {
	t.Helper()
	return openAt(t, withRole(t, "tenants"), o, func(*pgxpool.Config) {})
}

// TestTenants runs the conformance tests, each on a new tenant of one schema. The tenants of earlier tests keep their
// rows, which have the same ids, and another tenant writes and collects meanwhile.
func TestTenants(t *testing.T) {
	for name, o := range map[string]Options{"table": {}, "bucket": {Bucket: inMemory(t)}, "sealed": {Key: storetest.SealedKey()}} {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock()
			o.Clock, o.Schema = clock.Now, newSchema()
			open := func(t *testing.T, tenant string) *Store {
				o := o
				o.Tenant = tenant
				return openTenant(t, o)
			}
			again := func(t *testing.T, s segno.Store) segno.Store { return open(t, s.(*Store).options.Tenant) }
			neighbour, opened := open(t, "neighbour"), 0
			raw := func(t *testing.T, s segno.Store) []byte { return []byte(rowsOf(t, s.(*Store))) }
			if o.Key != nil {
				raw = nil // the tests search for texts
			}
			storetest.TestSome(t, soak.OneOf(t, 12, 50), func(t *testing.T) segno.Store {
				opened++
				if !strings.Contains(t.Name(), "/scale/") { // those tests count allocations
					keepBusy(t, neighbour, opened)
				}
				return open(t, fmt.Sprint("tenant ", opened))
			}, storetest.Options{
				Clock: clock,
				Reopen: func(t *testing.T, s segno.Store) segno.Store {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					return again(t, s)
				},
				Another: again,
				Raw:     raw,
			})
		})
	}
}

// keepBusy writes, collects and deletes in a store until the end of t, at most a few times.
func keepBusy(t *testing.T, s *Store, run int) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		for i := range 5 {
			thread := segno.ThreadID(fmt.Sprint("thread ", run, " ", i))
			head, err := s.Commit(ctx, base(thread))
			var c segno.Commit
			if err == nil {
				c, err = turn(ctx, s, head, segno.CommitID(fmt.Sprint("turn ", run, " ", i)))
			}
			if err == nil {
				_, err = s.Commit(ctx, c)
			}
			if err == nil {
				err = s.Delete(ctx, thread)
			}
			if err == nil {
				_, err = s.Collect(ctx, segno.CollectPolicy{})
			}
			if err != nil {
				if segno.KindOf(err) != segno.KindCancelled {
					t.Error(err)
				}
				return
			}
		}
	}()
}

// rowsOf returns all rows of a store's tenant, and the bodies in its bucket, as a superuser sees them.
func rowsOf(t *testing.T, s *Store) string {
	t.Helper()
	var raw strings.Builder
	withSuperuser(t, func(conn *pgx.Conn) error {
		for _, table := range allTables {
			query := fmt.Sprintf(`COPY (SELECT * FROM {}%s x WHERE tenant = %d ORDER BY x.*::text) TO STDOUT (FORMAT binary)`, table, s.tenant)
			if _, err := conn.PgConn().CopyTo(t.Context(), &raw, s.sql(query)); err != nil {
				return err
			}
		}
		return nil
	})
	if s.options.Bucket == nil {
		return raw.String()
	}
	var names []string
	for name, err := range s.options.Bucket.List(t.Context(), s.bucketPrefix()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		data, err := s.options.Bucket.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		raw.WriteString(name)
		raw.Write(data)
	}
	return raw.String()
}

// TestNamesOfTenants opens tenants with hostile names. Each has its own rows, and a name that PostgreSQL cannot store is
// refused.
func TestNamesOfTenants(t *testing.T) {
	url, schema := withRole(t, "tenants"), newSchema()
	long := strings.Repeat("x", maxTenantName)
	names := []string{"a", "A", "a ", " a", "1", "2", "'", `"`, `\`, `'; DROP TABLE threads; --`, `$1`, "?1", "{}", "{tenant}", "%s", "%", "_", "*", "null",
		"a\nb", "\x01", "\u202e", "ä", "a\u0308", long, long[1:], "on", "default", "segno.tenant", "../a", "a/b", `E'\000'`, "🎼"}
	stores := make([]*Store, len(names))
	for i, name := range names {
		s, err := Open(t.Context(), url, Options{Schema: schema, Tenant: name})
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		defer s.Close()
		c := base("thread")
		c.Create.Title = name
		if _, err := s.Commit(t.Context(), c); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		stores[i] = s
	}
	for i, s := range stores {
		n := 0
		for thread, err := range s.Threads(t.Context(), segno.ThreadQuery{}) {
			if err != nil || thread.Title != names[i] {
				t.Errorf("tenant %q has the thread of tenant %q, %v", names[i], thread.Title, err)
			}
			n++
		}
		if _, err := s.Head(t.Context(), "none"); n != 1 || segno.KindOf(err) != segno.KindNotFound || strings.Contains(err.Error(), "\n") {
			t.Errorf("tenant %q has %d threads; %v", names[i], n, err)
		}
	}
	owner, err := OpenOwner(t.Context(), url, Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	var listed []string
	for tenant, err := range owner.Tenants(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, tenant.Name)
	}
	slices.Sort(names)
	if !slices.Equal(listed, names) {
		t.Errorf("the owner lists %q", listed)
	}
	for _, name := range []string{"a\x00b", "\x00", "\xff", "a\xc3", long + "x"} {
		_, err := Open(t.Context(), url, Options{Schema: schema, Tenant: name})
		if err := wantKind(err, segno.KindInvalid); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if err := wantKind(owner.CreateTenant(t.Context(), name, "", nil), segno.KindInvalid); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := wantKind(owner.CreateTenant(t.Context(), "", "", nil), segno.KindInvalid); err != nil {
		t.Error(err)
	}
}

// TestOpenOfATenant verifies which combinations of a store, a tenant, a key and a role Open refuses.
func TestOpenOfATenant(t *testing.T) {
	x := openTwoTenants(t, nil)
	plain := openAt(t, x.appURL, Options{}, func(*pgxpool.Config) {}).options.Schema
	if err := x.owner.CreateTenant(t.Context(), "sealed", "", storetest.SealedKey()); err != nil {
		t.Fatal(err)
	}
	if err := x.owner.CreateTenant(t.Context(), "of the owner", "tables_owner", nil); err != nil {
		t.Fatal(err)
	}
	withRole(t, "exempt")
	withSuperuser(t, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), `ALTER ROLE exempt BYPASSRLS`)
		return err
	})
	schema, otherKey := x.one.options.Schema, bytes.Repeat([]byte{7}, 32)
	for _, o := range []struct {
		url  string
		o    Options
		want segno.Kind
		text string
	}{
		{x.appURL, Options{Schema: schema, Tenant: "sealed", Key: storetest.SealedKey()}, segno.KindNone, ""},
		{x.ownerURL, Options{Schema: schema, Tenant: "of the owner"}, segno.KindNone, ""},
		{x.appURL, Options{Schema: schema, Tenant: "one", MustExist: true}, segno.KindNone, ""},
		{x.appURL, Options{Schema: schema, Tenant: "none", MustExist: true}, segno.KindNotFound, "the tenant does not exist"},
		{x.appURL, Options{Schema: schema, Tenant: "none"}, segno.KindRefused, "permission denied"},
		{x.appURL, Options{Schema: schema, Tenant: "of the owner", MustExist: true}, segno.KindNotFound, "does not exist"},
		{x.appURL, Options{Schema: schema}, segno.KindRefused, "no tenant was given"},
		{x.appURL, Options{Schema: plain, Tenant: "one"}, segno.KindRefused, "the store has no tenants"},
		{x.appURL, Options{Schema: schema, Tenant: "sealed"}, segno.KindRefused, "no key was given"},
		{x.appURL, Options{Schema: schema, Tenant: "sealed", Key: otherKey}, segno.KindRefused, "another key"},
		{x.appURL, Options{Schema: schema, Tenant: "one", Key: otherKey}, segno.KindRefused, "not sealed"},
		{server.URL, Options{Schema: schema, Tenant: "one"}, segno.KindRefused, `the role "postgres" is not restricted`},
		{server.URL, Options{Schema: newSchema(), Tenant: "one"}, segno.KindRefused, `the role "postgres" is not restricted`},
		{strings.Replace(server.URL, "postgres@", "exempt@", 1), Options{Schema: schema, Tenant: "one"}, segno.KindRefused, `the role "exempt"`},
	} {
		s, err := Open(t.Context(), o.url, o.o)
		if o.want == segno.KindNone && err == nil {
			_, err = s.Commit(t.Context(), base("thread"))
			s.Close()
		}
		if segno.KindOf(err) != o.want || err != nil && !strings.Contains(err.Error(), o.text) || err != nil && segno.HintOf(err) == "" {
			t.Errorf("tenant %q: %v (%v, hint %q), want %v: %s", o.o.Tenant, err, segno.KindOf(err), segno.HintOf(err), o.want, o.text)
		}
	}
	segnoOfBefore := tenantsVersion // the versions of earlier builds were at most sealedVersion + 2
	var version int
	if err := x.pool.QueryRow(t.Context(), x.one.sql(`SELECT version FROM {}meta`)).Scan(&version); err != nil || version < segnoOfBefore {
		t.Errorf("a segno without tenants opens the store: version %d, %v", version, err)
	}
}

// failingBucket is a bucket that cannot delete.
type failingBucket struct{ *memoryBucket }

func (failingBucket) Delete(context.Context, string) error { return errors.New("no delete") }

// TestDeleteTenant deletes a tenant that a program has open. Only its rows and bodies are deleted. Neither before nor
// after a tenant with the same name exists does the program read or write again. An interrupted deletion is completed.
func TestDeleteTenant(t *testing.T) {
	bucket := new(memoryBucket)
	x := openTwoTenants(t, bucket)
	for _, s := range []*Store{x.one, x.two} {
		fill(t, s, noise(600<<10))
	}
	want, ctx := rowsOf(t, x.two), t.Context()
	x.owner.s.options.Bucket = failingBucket{bucket}
	if err := x.owner.DeleteTenant(ctx, "one"); err == nil || !strings.Contains(err.Error(), "no delete") {
		t.Fatalf("the bucket cannot delete: %v", err)
	}
	for tenant, err := range x.owner.Tenants(ctx) {
		if err != nil || tenant.IsDeleted != (tenant.Name == "one") {
			t.Errorf("%+v, %v", tenant, err)
		}
	}
	cannotUse := func() {
		t.Helper()
		if _, err := x.one.Head(ctx, "thread"); segno.KindOf(err) != segno.KindNotFound {
			t.Errorf("its program reads: %v", err)
		}
		if _, err := x.one.Commit(ctx, base("another")); segno.KindOf(err) != segno.KindRefused {
			t.Errorf("its program commits: %v", err)
		}
	}
	cannotUse()
	if err := x.owner.CreateTenant(ctx, "one", "", nil); segno.KindOf(err) != segno.KindBusy {
		t.Errorf("creating a tenant that is being deleted: %v", err)
	}
	x.owner.s.options.Bucket = bucket
	if err := x.owner.DeleteTenant(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	if err := x.owner.DeleteTenant(ctx, "one"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("deleting it again: %v", err)
	}
	if err := x.owner.CreateTenant(ctx, "one", "", nil); err != nil {
		t.Fatal(err)
	}
	cannotUse()
	if rowsOf(t, x.two) != want {
		t.Error("rows or bodies of the other tenant have changed")
	}
	x.one.tenant = -1 // rowsOf then returns only bodies
	if rows := rowsOf(t, x.one); strings.Contains(rows, "segno/") {
		t.Error("bodies are left in the bucket")
	}
	o := x.one.options
	o.MustExist = true
	again, err := OpenPool(ctx, x.pool, o)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n, err := countOf(again.Threads(ctx, segno.ThreadQuery{})); n != 0 || err != nil {
		t.Errorf("the new tenant has %d threads, %v", n, err)
	}
	plain, err := OpenOwner(ctx, x.appURL, openAt(t, x.appURL, Options{}, func(*pgxpool.Config) {}).options)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	_, listErr := countOf(plain.Tenants(ctx))
	for what, err := range map[string]error{"delete": plain.DeleteTenant(ctx, "one"), "create": plain.CreateTenant(ctx, "one", "", nil), "list": listErr} {
		if err := wantKind(err, segno.KindRefused); err != nil {
			t.Errorf("%s in a store without tenants: %v", what, err)
		}
	}
}

// TestTransactionsOfATenant verifies that the functions of Options.InCommit and InTx see the rows of their tenant only.
func TestTransactionsOfATenant(t *testing.T) {
	x := openTwoTenants(t, nil)
	fill(t, x.one, "text")
	seen := func(ctx context.Context, tx pgx.Tx) (n int, err error) {
		err = tx.QueryRow(ctx, x.two.sql(`SELECT count(*) FROM {}threads`)).Scan(&n)
		return n, err
	}
	inCommit := -1
	x.two.options.InCommit = func(*segno.Commit) func(context.Context, pgx.Tx, segno.Head) error {
		return func(ctx context.Context, tx pgx.Tx, _ segno.Head) (err error) {
			inCommit, err = seen(ctx, tx)
			return err
		}
	}
	head, err := x.two.Commit(t.Context(), base("thread"))
	if err != nil || inCommit != 1 || head.Seq != 1 {
		t.Errorf("in the commit of %+v the tenant has %d threads, %v", head, inCommit, err)
	}
	inTx := -1
	if err := x.two.InTx(t.Context(), "count", "", func(ctx context.Context, tx pgx.Tx) (err error) {
		inTx, err = seen(ctx, tx)
		return err
	}); err != nil || inTx != 1 {
		t.Errorf("in a transaction the tenant has %d threads, %v", inTx, err)
	}
}
