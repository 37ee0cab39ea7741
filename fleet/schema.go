package fleet

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// schemaVersion is the version of the fleet's tables that this package writes.
const schemaVersion = 2

// migrations contains the step from each version to the next. "{}" stands for the name of the store's schema and a dot.
// "{tenant}" is "tenant_number, " if the store has tenants, and otherwise nothing; "{tenant column}" is the definition of that column. The
// column tenant is the name that a program gave.
//
// A prompt is open until its state is done or cancelled. The front of a thread is its prompt that has begun, or else the first one
// whose time has come; at most one has begun. next is the time of the next attempt, or the time that the sender asked for. seen is the number of the thread's
// newest commit before the last attempt, and again is that of a commit that the present attempt may have missed. claim is the
// job that runs the prompt. trace is the context of the span of its sender. parent and question name the interrupt of another thread that the prompt's answer decides, and
// others is a list of further ones. record
// and outcome are JSON, encrypted if the store is sealed. key is a keyed hash then.
var migrations = [schemaVersion]string{`
CREATE TABLE {}fleet_prompts (
	n bigint GENERATED ALWAYS AS IDENTITY,
	thread bytea NOT NULL,
	key bytea NOT NULL,
	digest bytea NOT NULL,
	tenant text NOT NULL,
	priority smallint NOT NULL,
	state text NOT NULL DEFAULT 'sent',
	begun boolean NOT NULL DEFAULT false,
	attempts integer NOT NULL DEFAULT 0,
	next timestamptz, wake timestamptz,
	seen bigint NOT NULL DEFAULT 0, again bigint NOT NULL DEFAULT 0,
	claim bigint NOT NULL DEFAULT 0,
	worker text,
	sent timestamptz NOT NULL DEFAULT clock_timestamp(), started timestamptz, ended timestamptz,
	parent bytea, question text,
	trace text,
	record bytea NOT NULL,
	outcome bytea, {tenant column}
	PRIMARY KEY ({tenant}n), UNIQUE ({tenant}thread, key)
) WITH (fillfactor = 70);
CREATE INDEX fleet_prompts_open ON {}fleet_prompts ({tenant}thread, n) WHERE state NOT IN ('done', 'cancelled');
CREATE UNIQUE INDEX fleet_prompts_begun ON {}fleet_prompts ({tenant}thread) WHERE begun AND state NOT IN ('done', 'cancelled');
CREATE INDEX fleet_prompts_state ON {}fleet_prompts ({tenant}state, n) WHERE state NOT IN ('done', 'cancelled');

CREATE TABLE {}fleet_workers (
	id text, {tenant column}
	host text NOT NULL,
	pid integer NOT NULL,
	started timestamptz NOT NULL DEFAULT clock_timestamp(),
	seen timestamptz NOT NULL DEFAULT clock_timestamp(),
	lease interval NOT NULL,
	queues jsonb NOT NULL,
	agents text[] NOT NULL,
	PRIMARY KEY ({tenant}id)
) WITH (fillfactor = 50);

CREATE TABLE {}fleet_bucket (
	one boolean CHECK (one), {tenant column}
	mark text NOT NULL,
	PRIMARY KEY ({tenant}one)
);

CREATE TABLE {}fleet_crons (
	name bytea, {tenant column}
	tenant text NOT NULL,
	every interval NOT NULL,
	next timestamptz NOT NULL,
	record bytea NOT NULL,
	PRIMARY KEY ({tenant}name)
);
`, `
ALTER TABLE {}fleet_prompts ADD COLUMN others jsonb;
`}

// separated are the tables of version 1 whose rows each belong to a tenant, if the store has tenants.
var separated = []string{"fleet_prompts", "fleet_workers", "fleet_bucket", "fleet_crons"}

// step returns the statements of a migration.
func (f *Fleet) step(migration string) string {
	column, first := "", ""
	if f.hasTenants {
		column, first = "tenant_number integer,", "tenant_number, "
	}
	return f.sql(strings.NewReplacer("{tenant column}", column, "{tenant}", first).Replace(migration))
}

// migrate creates or upgrades the tables of the fleet and of River. If several processes migrate, one does, and the others wait for it.
func (f *Fleet) migrate(ctx context.Context) error {
	return f.store.InTx(ctx, "open fleet", f.schema, func(ctx context.Context, tx pgx.Tx) error {
		version, err := f.version(ctx, tx)
		if err != nil || version == schemaVersion {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('segno fleet ' || $1::text, 0))`, f.schema); err != nil {
			return err
		}
		if version, err = f.version(ctx, tx); err != nil || version == schemaVersion {
			return err // another process migrated while this one waited
		}
		river, err := rivermigrate.New(riverpgxv5.New(f.pool), &rivermigrate.Config{Schema: f.schema, Logger: f.queueLog})
		if err != nil {
			return err
		}
		// The steps of the queue are transactions on another connection, because one uses a value that the step before added to an enum.
		if _, err := river.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return fmt.Errorf("creating the tables of the queue: %w", err)
		}
		for _, step := range migrations[version:] {
			if _, err := tx.Exec(ctx, f.step(step), pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("migrating from version %d: %w", version, err)
			}
		}
		if version == 0 {
			for _, table := range separated {
				if err := f.store.Separate(ctx, tx, table); err != nil {
					return fmt.Errorf("separating the tenants: %w", err)
				}
			}
		}
		if _, err = tx.Exec(ctx, f.sql(`CREATE TABLE IF NOT EXISTS {}fleet_meta (version integer NOT NULL)`)); err != nil {
			return err
		}
		if _, err = tx.Exec(ctx, f.sql(`DELETE FROM {}fleet_meta`)); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, f.sql(`INSERT INTO {}fleet_meta (version) VALUES ($1)`), schemaVersion)
		return err
	})
}

// Exists reports whether a schema of a database contains a fleet; "" is "segno".
func Exists(ctx context.Context, pool *pgxpool.Pool, schema string) (exists bool, err error) {
	err = pool.QueryRow(ctx, hasTables, cmp.Or(schema, "segno")).Scan(&exists)
	return exists, err
}

// hasTables reports whether a schema has the tables of a fleet. It reads the catalog and not to_regclass, which may return what the
// connection learned before another process created the tables.
const hasTables = `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'fleet_meta')`

// version returns the version of the fleet's tables; 0 if there are none.
func (f *Fleet) version(ctx context.Context, tx pgx.Tx) (version int, err error) {
	var exists bool
	if err := tx.QueryRow(ctx, hasTables, f.schema).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = tx.QueryRow(ctx, f.sql(`SELECT version FROM {}fleet_meta`)).Scan(&version)
	if err == nil && version > schemaVersion {
		return 0, segno.Errorf(segno.KindNewer, "open fleet", f.schema, "the fleet has version %d, this segno knows %d", version, schemaVersion).
			WithHint("use the newest segno you have")
	}
	return version, err
}
