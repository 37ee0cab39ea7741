package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tenantsRig is a schema with the tenants "a" and "b", whose owner is not a superuser. b is sealed.
type tenantsRig struct {
	*testing.T
	schema string
	pool   *pgxpool.Pool // of a superuser
	owner  *postgres.Owner
	a, b   *rig
}

// newTenantsRig creates the tenants, grants the store's privileges to the role of the programs if it is not "", and then opens the fleets.
func newTenantsRig(t *testing.T, program string) *tenantsRig {
	t.Helper()
	r := &tenantsRig{T: t, schema: fmt.Sprintf("fleet_%d", schemas.Add(1)), pool: newPool(t)}
	if _, err := r.pool.Exec(t.Context(), `DO $$ BEGIN CREATE ROLE fleet_tenants LOGIN; GRANT CREATE ON DATABASE postgres TO fleet_tenants;
		EXCEPTION WHEN duplicate_object THEN END $$`); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(server.URL, "postgres@", "fleet_tenants@", 1) + "&synchronous_commit=off&pool_max_conns=16"
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if r.owner, err = postgres.OpenOwnerPool(pool, postgres.Options{Schema: r.schema}); err != nil {
		t.Fatal(err)
	}
	sealed := bytes.Repeat([]byte{7}, 32)
	if err := errors.Join(r.owner.CreateTenant(t.Context(), "a", "", nil), r.owner.CreateTenant(t.Context(), "b", "", sealed)); err != nil {
		t.Fatal(err)
	}
	if program != "" {
		if err := r.owner.Grant(t.Context(), program); err != nil {
			t.Fatal(err)
		}
	}
	open := func(tenant string, key []byte) *rig {
		return newRig(t, func(c *Config) { c.Pool, c.Schema, c.Tenant, c.Key = pool, r.schema, tenant, key })
	}
	r.a, r.b = open("a", nil), open("b", sealed)
	return r
}

// rows returns all rows of a tenant in the tables of the fleet, as the superuser sees them.
func (r *tenantsRig) rows(tenant string) string {
	r.Helper()
	var all []string
	for _, query := range []string{
		`SELECT p::text FROM {}fleet_prompts p WHERE tenant = $1 ORDER BY n`,
		`SELECT c::text FROM {}fleet_crons c WHERE tenant = $1 ORDER BY name`,
		`SELECT w.id FROM {}fleet_workers w JOIN {}tenants t ON t.n = w.tenant_number WHERE t.name = $1 ORDER BY w.id`,
	} {
		rows, err := r.pool.Query(r.Context(), r.a.sql(query), tenant)
		var found []string
		if err == nil {
			found, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, found...)
	}
	rows, err := r.pool.Query(r.Context(), r.a.sql(`SELECT concat_ws(' ', id, state, args) FROM {}river_job WHERE queue = $1 ORDER BY id`), QueueOf(tenant))
	var jobs []string
	if err == nil {
		jobs, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		r.Fatal(err)
	}
	return strings.Join(append(all, jobs...), "\n")
}

// TestTenantsOfAStoreAreSeparated calls each method of one tenant's fleet while the other one has the same thread, keys and
// schedule, and a turn that runs. Neither shows or changes anything of the other.
func TestTenantsOfAStoreAreSeparated(t *testing.T) {
	r := newTenantsRig(t, "")
	ctx, a, b := t.Context(), r.a, r.b
	never := time.Now().Add(24 * time.Hour)
	release, running := make(chan struct{}), make(chan struct{})
	bWorker := b.runner(func(ctx context.Context, w Work) (Result, error) {
		if w.Prompt.Text == "wait" {
			close(running)
			<-release
		}
		return done(w.Tenant + " answers " + w.Prompt.Text)
	})
	b.send(Prompt{Thread: "t", Text: "hello of b", Key: "k"})
	stop := b.start(bWorker)
	if p := b.await("t", "k", StateDone); p.Outcome != "b answers hello of b" || p.Tenant != "b" {
		t.Errorf("the prompt of b is %+v", p)
	}
	if err := b.Cron(ctx, Cron{Name: "daily", Every: time.Hour, First: never, Prompt: Prompt{Agent: "support", Text: "report of b"}}); err != nil {
		t.Fatal(err)
	}
	b.send(Prompt{Thread: "t", Text: "wait", Key: "k2"})
	<-running
	before := r.rows("b")

	t.Run("nothing is shown", func(t *testing.T) {
		for p, err := range a.Prompts(ctx, PromptQuery{}) {
			t.Errorf("a sees the prompt %+v, %v", p, err)
		}
		if s, err := a.Status(ctx); err != nil || len(s.Open) != 0 || len(s.Workers) != 0 {
			t.Errorf("a sees the status %+v, %v", s, err)
		}
		if _, err := a.Store().Head(ctx, "t"); segno.KindOf(err) != segno.KindNotFound {
			t.Errorf("a reads the thread: %v", err)
		}
	})
	t.Run("nothing is changed", func(t *testing.T) {
		for name, call := range map[string]func() error{
			"Retry":  func() error { return a.Retry(ctx, "t", "k2") },
			"Cancel": func() error { return a.Cancel(ctx, "t", "k2") },
			"Decide": func() error { return a.Decide(ctx, "t", segno.Decision{Interrupt: "q", Kind: segno.Approve}) },
		} {
			if err := call(); segno.KindOf(err) != segno.KindNotFound {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := a.RemoveCron(ctx, "daily"); err != nil {
			t.Error(err)
		}
		if err := a.Signal(ctx, "t", "go", "s", 1); err != nil && segno.KindOf(err) != segno.KindNotFound {
			t.Error(err)
		}
	})
	t.Run("the same ids", func(t *testing.T) {
		if sent := a.send(Prompt{Thread: "t", Text: "hello of a", Key: "k"}); !sent.IsNew {
			t.Errorf("a sent %+v", sent)
		}
		err := pgx.BeginFunc(ctx, r.a.pool, func(tx pgx.Tx) error {
			sent, err := a.SendTx(ctx, tx, Prompt{Thread: "t", Agent: "support", Text: "more of a", Key: "k2"})
			if err == nil && !sent.IsNew {
				t.Errorf("a sent %+v", sent)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Cron(ctx, Cron{Name: "daily", Every: time.Hour, First: never, Prompt: Prompt{Agent: "support", Text: "report of a"}}); err != nil {
			t.Fatal(err)
		}
		w := a.runner(func(_ context.Context, w Work) (Result, error) { return done(w.Tenant + " answers " + w.Prompt.Text) })
		stop := a.start(w)
		if p := a.await("t", "k2", StateDone); p.Outcome != "a answers more of a" {
			t.Errorf("the prompt of a is %+v", p)
		}
		if s, err := a.Status(ctx); err != nil || len(s.Workers) != 1 {
			t.Errorf("the status of a is %+v, %v", s, err)
		}
		// To a worker of a, the workers of b are unknown, and so as if they were dead.
		if err := a.store.InTx(ctx, "test", "", w.replaceJobs); err != nil {
			t.Error(err)
		}
		stop()
	})
	if after := r.rows("b"); after != before {
		t.Errorf("b changed from\n%s\nto\n%s", before, after)
	}
	close(release)
	b.await("t", "k2", StateDone)
	stop()
	for p, err := range b.Prompts(ctx, PromptQuery{}) {
		if err != nil || p.Tenant != "b" || strings.Contains(p.Text, "of a") {
			t.Errorf("b sees the prompt %+v, %v", p, err)
		}
	}

	before = r.rows("b")
	if err := r.owner.DeleteTenant(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := r.pool.QueryRow(ctx, a.sql(`SELECT (SELECT count(*) FROM {}fleet_prompts WHERE tenant = 'a') + (SELECT count(*) FROM {}fleet_crons WHERE tenant = 'a')`)).
		Scan(&left); err != nil || left != 0 {
		t.Errorf("the deletion left %d rows, %v", left, err)
	}
	for p, err := range a.Prompts(ctx, PromptQuery{}) {
		t.Errorf("the deleted tenant sees the prompt %+v, %v", p, err)
	}
	if after := r.rows("b"); after != before {
		t.Errorf("the deletion changed b from\n%s\nto\n%s", before, after)
	}
}

// TestAWorkerServesOneTenantOfAStore verifies what is refused in a store with tenants.
func TestAWorkerServesOneTenantOfAStore(t *testing.T) {
	r := newTenantsRig(t, "")
	w := r.a.runner(func(context.Context, Work) (Result, error) { return done("done") })
	w.Queues = map[string]int{"a": 1, "b": 1}
	if err := w.Run(t.Context()); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("a worker of two tenants: %v", err)
	}
	for tenant, kind := range map[string]segno.Kind{"": segno.KindRefused, "unknown": segno.KindNotFound} {
		f, err := Open(t.Context(), Config{Pool: r.a.pool, Schema: r.schema, Tenant: tenant})
		if err == nil {
			f.Close()
		}
		if segno.KindOf(err) != kind {
			t.Errorf("opening the fleet of %q: %v", tenant, err)
		}
	}
	f, err := Open(t.Context(), Config{Pool: r.pool, Schema: r.schema, Tenant: "a"})
	if err == nil {
		f.Close()
	}
	if segno.KindOf(err) != segno.KindRefused {
		t.Errorf("opening the fleet as a superuser: %v", err)
	}
}

// TestAGrantedRoleUsesAFleetWithTenants opens a fleet and runs a prompt as a role with the privileges that docs/tenants.md names, in the
// order of the page: those of the store before the tables of the fleet exist.
func TestAGrantedRoleUsesAFleetWithTenants(t *testing.T) {
	if _, err := newPool(t).Exec(t.Context(), `DO $$ BEGIN CREATE ROLE fleet_program LOGIN; EXCEPTION WHEN duplicate_object THEN END $$`); err != nil {
		t.Fatal(err)
	}
	r := newTenantsRig(t, "fleet_program")
	doc, err := os.ReadFile("../docs/tenants.md")
	if err != nil {
		t.Fatal(err)
	}
	_, grants, _ := strings.Cut(string(doc), "```sql\n")
	grants, _, _ = strings.Cut(grants, "```")
	grants = strings.NewReplacer("segno_app", "fleet_program", "segno.", r.schema+".", "SCHEMA segno ", "SCHEMA "+r.schema+" ").Replace(grants)
	if _, err := r.a.pool.Exec(t.Context(), grants, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), strings.Replace(server.URL, "postgres@", "fleet_program@", 1)+"&pool_max_conns=8")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	f := newRig(t, func(c *Config) { c.Pool, c.Schema, c.Tenant = pool, r.schema, "a" })
	f.send(Prompt{Thread: "t", Text: "hello", Key: "k"})
	stop := f.start(f.runner(func(context.Context, Work) (Result, error) { return done("done") }))
	f.await("t", "k", StateDone)
	stop()
	f.Close()

	// The owner upgrades the tables, and the role then needs no other privileges.
	r.a.execute(`ALTER TABLE {}fleet_prompts DROP COLUMN others`)
	r.a.execute(`UPDATE {}fleet_meta SET version = 1`)
	_, err = Open(t.Context(), f.config)
	if e := (*segno.Error)(nil); segno.KindOf(err) != segno.KindRefused || !errors.As(err, &e) || e.Hint != "do it once as the owner of the schema" {
		t.Errorf("the role upgrades the tables: %v", err)
	}
	owner, err := Open(t.Context(), r.a.config)
	if err != nil {
		t.Fatal(err)
	}
	owner.Close()
	again, err := Open(t.Context(), f.config)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}
