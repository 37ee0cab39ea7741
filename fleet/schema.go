package fleet

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// schemaVersion is the version of the fleet's tables that this package writes.
const schemaVersion = 1

// migrations contains the step from each version to the next. "{}" stands for the name of the store's schema and a dot.
//
// A prompt is open until its state is done or cancelled. The front of a thread is its prompt that has begun, or else the first one
// whose time has come; at most one has begun. next is the time of the next attempt, or the time that the sender asked for. seen is the number of the thread's
// newest commit before the last attempt, and again is that of a commit that the present attempt may have missed. claim is the
// job that runs the prompt. parent and question name the interrupt of another thread that the prompt's answer decides. record
// and outcome are JSON, encrypted if the store is sealed. key is a keyed hash then.
var migrations = [schemaVersion]string{`
CREATE TABLE {}fleet_prompts (
	n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
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
	record bytea NOT NULL,
	outcome bytea,
	UNIQUE (thread, key)
) WITH (fillfactor = 70);
CREATE INDEX fleet_prompts_open ON {}fleet_prompts (thread, n) WHERE state NOT IN ('done', 'cancelled');
CREATE UNIQUE INDEX fleet_prompts_begun ON {}fleet_prompts (thread) WHERE begun AND state NOT IN ('done', 'cancelled');
CREATE INDEX fleet_prompts_state ON {}fleet_prompts (state, n) WHERE state NOT IN ('done', 'cancelled');

CREATE TABLE {}fleet_workers (
	id text PRIMARY KEY,
	host text NOT NULL,
	pid integer NOT NULL,
	started timestamptz NOT NULL DEFAULT clock_timestamp(),
	seen timestamptz NOT NULL DEFAULT clock_timestamp(),
	queues jsonb NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE {}fleet_crons (
	name bytea PRIMARY KEY,
	tenant text NOT NULL,
	every interval NOT NULL,
	next timestamptz NOT NULL,
	record bytea NOT NULL
);
`}

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
		river, err := rivermigrate.New(riverpgxv5.New(f.pool), &rivermigrate.Config{Schema: f.schema, Logger: f.log})
		if err != nil {
			return err
		}
		// The steps of the queue are transactions on another connection, because one uses a value that the step before added to an enum.
		if _, err := river.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return fmt.Errorf("creating the tables of the queue: %w", err)
		}
		for _, step := range migrations[version:] {
			if _, err := tx.Exec(ctx, f.sql(step), pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("migrating from version %d: %w", version, err)
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

// version returns the version of the fleet's tables; 0 if there are none.
func (f *Fleet) version(ctx context.Context, tx pgx.Tx) (version int, err error) {
	var exists bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, f.sql("{}fleet_meta")).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = tx.QueryRow(ctx, f.sql(`SELECT version FROM {}fleet_meta`)).Scan(&version)
	if err == nil && version > schemaVersion {
		return 0, segno.Errorf(segno.KindNewer, "open fleet", f.schema, "the fleet has version %d, this segno knows %d", version, schemaVersion).
			WithHint("use the newest segno you have")
	}
	return version, err
}
