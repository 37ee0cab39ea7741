package fleet

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Config configures a fleet. Only Pool is required.
type Config struct {
	// Pool has the connections. A worker uses one of them to listen for jobs, and up to two for each turn that runs. The
	// caller closes it, after the fleet.
	Pool *pgxpool.Pool
	// Bucket stores large objects; see [postgres.Options].
	Bucket postgres.Bucket
	// Schema is the schema of the store, the fleet and the queue; "" is "segno".
	Schema string
	// Tenant is the tenant of the prompts that this Fleet sends, and of its worker; "" is a tenant, too. If the store has
	// tenants, it is one of them, which must exist; see [postgres.Owner.CreateTenant]. Then the Fleet sees and changes only what
	// belongs to this tenant, and so do its workers. Otherwise it only names a queue.
	Tenant string
	// Key seals the store and the texts of the prompts; see [postgres.Options]. The ids of threads, the names of tenants and
	// the states of prompts are not encrypted.
	Key    []byte
	Log    *slog.Logger         // nil: none
	Tracer trace.TracerProvider // nil: none
	Meter  metric.MeterProvider // nil: none
	// Clock is the clock of the store; see [postgres.Options]. The times of prompts and jobs are the server's.
	Clock func() time.Time
}

// Fleet is a store whose threads run on many machines. It is safe for concurrent use.
type Fleet struct {
	config Config
	pool   *pgxpool.Pool
	schema string
	log    *slog.Logger
	store  *postgres.Store
	sealer *record.Sealer
	// hasTenants means that the database separates the tenants: the rows that this Fleet sees are those of its tenant.
	hasTenants bool

	queue *river.Client[pgx.Tx] // inserts jobs

	queueLog  *slog.Logger
	telemetry telemetry
}

// Open opens the store of a fleet, and creates or upgrades its tables. The caller closes the fleet, and then the pool.
func Open(ctx context.Context, c Config) (*Fleet, error) {
	if c.Pool == nil {
		return nil, segno.Errorf(segno.KindInvalid, "open fleet", "", "it has no pool of connections")
	}
	f := &Fleet{config: c, pool: c.Pool, schema: cmp.Or(c.Schema, "segno"), log: cmp.Or(c.Log, slog.New(slog.DiscardHandler))}
	f.queueLog = slog.New(queueLog{f.log.Handler()})
	var err error
	if f.hasTenants, err = postgres.HasTenants(ctx, c.Pool, f.schema); err != nil {
		return nil, err
	}
	o := postgres.Options{Bucket: c.Bucket, Schema: c.Schema, Key: c.Key, Clock: c.Clock, InCommit: f.inCommit}
	switch {
	case f.hasTenants && c.Tenant == "":
		return nil, segno.Errorf(segno.KindRefused, "open fleet", f.schema, "the store has tenants, and no tenant was given").WithHint("name the tenant")
	case f.hasTenants:
		o.Tenant, o.MustExist = c.Tenant, true
	}
	f.store, err = postgres.OpenPool(ctx, c.Pool, o)
	if err != nil {
		return nil, err
	}
	if err := f.start(ctx); err != nil {
		f.store.Close()
		return nil, err
	}
	return f, nil
}

func (f *Fleet) start(ctx context.Context) error {
	if err := f.migrate(ctx); err != nil {
		return err
	}
	if err := f.unlock(ctx); err != nil {
		return err
	}
	if err := f.checkBucket(ctx); err != nil {
		return err
	}
	// A client that inserts sends no notification for a job within the cooldown after its last one, and the job waits for a poll. By
	// default that would be most prompts and wakes of a busy process.
	queue, err := river.NewClient(riverpgxv5.New(f.pool), &river.Config{Schema: f.schema, Logger: f.queueLog, FetchCooldown: river.FetchCooldownMin})
	if err == nil {
		f.queue, err = queue, f.instrument()
	}
	if err != nil {
		return segno.NewError(segno.KindInvalid, "open fleet", f.schema, err)
	}
	return nil
}

// unlock makes the sealer of the texts from the key of the store.
func (f *Fleet) unlock(ctx context.Context) (err error) {
	if f.config.Key == nil {
		return nil
	}
	query, args := `SELECT mark FROM {}seal`, []any(nil)
	if f.hasTenants {
		query, args = `SELECT mark FROM {}tenants WHERE name = $1`, []any{f.config.Tenant}
	}
	var mark []byte
	err = f.store.InTx(ctx, "open fleet", f.schema, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, f.sql(query), args...).Scan(&mark)
	})
	if err != nil {
		return err
	}
	f.sealer, _, err = record.Unlock(f.schema, f.config.Key, mark, false)
	return err
}

// Store returns the store. Its commits wake threads: agents that run on the fleet use it.
func (f *Fleet) Store() segno.Store { return f.store }

// Close closes the store. Workers must have ended.
func (f *Fleet) Close() error {
	return errors.Join(f.telemetry.close(), f.store.Close())
}

// sql replaces "{}" in a query with the schema. In a store with tenants, every unique index begins with the tenant.
func (f *Fleet) sql(query string) string {
	if f.hasTenants {
		query = strings.ReplaceAll(query, "ON CONFLICT (", "ON CONFLICT (tenant_number, ")
	}
	return strings.ReplaceAll(query, "{}", pgx.Identifier{f.schema}.Sanitize()+".")
}
