package postgres

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// sealedVersion is a bit in the version of a sealed store. It makes a segno that does not support seals
// refuse the store. A sealed store has one more table, with the mark of its key.
const sealedVersion = 1 << 16

// migrate upgrades the schema to the current version, and unlocks the store or its tenant. If several processes migrate,
// the first one does it in one transaction, and the others wait for it.
func (s *Store) migrate(ctx context.Context) error {
	if s.options.Tenant != "" {
		if err := s.checkRole(ctx); err != nil {
			return err
		}
	}
	version, err := s.version(ctx, s.pool)
	if err != nil && !isUndefined(err) {
		return err
	}
	if err != nil && s.options.MustExist {
		return segno.Errorf(segno.KindNotFound, "open store", s.name, "the database has no store").
			WithHint("check the name of the database")
	}
	if err == nil && version == schemaVersion {
		if s.options.Tenant == "" {
			return s.unlock(ctx, s.pool, false)
		}
		return s.ownerHint("open store", pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return s.unlock(ctx, tx, false) }))
	}
	return s.changeSchema(ctx, "open store", func(tx pgx.Tx) error {
		version, isNew, err := s.createMeta(ctx, tx, s.options.Tenant != "")
		if err != nil {
			return err
		}
		if s.options.Tenant == "" { // before the upgrade, because the key may be wrong
			if err := s.unlock(ctx, tx, isNew); err != nil {
				return err
			}
		}
		if err := s.upgradeFrom(ctx, tx, version); err != nil || s.options.Tenant == "" {
			return err
		}
		return s.unlock(ctx, tx, false)
	})
}

// changeSchema runs f in a transaction. Only one process changes a schema at a time.
func (s *Store) changeSchema(ctx context.Context, op string, f func(tx pgx.Tx) error) error {
	return s.ownerHint(op, pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('segno schema ' || $1::text, 0))`,
			s.options.Schema); err != nil {
			return err
		}
		return f(tx)
	}))
}

// ownerHint adds a hint to an error about a missing privilege.
func (s *Store) ownerHint(op string, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42501" {
		err = segno.NewError(segno.KindRefused, op, s.name, oneLine(err)).WithHint("do it once as the owner of the schema")
	}
	return err
}

// createMeta creates the schema with its table meta if it is missing, and returns the version.
func (s *Store) createMeta(ctx context.Context, tx pgx.Tx, withTenants bool) (version int, isNew bool, err error) {
	var exists bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, s.sql("{}meta")).Scan(&exists); err != nil {
		return 0, false, err
	}
	if exists {
		version, err = s.version(ctx, tx)
		return version, false, err
	}
	s.id, s.hasTenants = segno.NewID(), withTenants
	all := []change{{`CREATE SCHEMA IF NOT EXISTS ` + s.schema, nil},
		{`CREATE TABLE {}meta (version integer NOT NULL, store text NOT NULL)`, nil},
		{`INSERT INTO {}meta (version, store) VALUES (0, $1)`, []any{s.id}}}
	if withTenants {
		for _, x := range tenantsTable {
			all = append(all, change{x, nil})
		}
	}
	return 0, true, s.execAll(ctx, tx, all)
}

// upgradeFrom executes the migrations from a version to the current one.
func (s *Store) upgradeFrom(ctx context.Context, tx pgx.Tx, version int) error {
	plan, err := s.plan("open store", version, schemaVersion)
	if err != nil || len(plan) == 0 {
		return err
	}
	return s.runPlan(ctx, tx, plan)
}

// executor is a pool or a transaction.
type executor interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
}

// version reads the schema's version and the store's id.
func (s *Store) version(ctx context.Context, on executor) (version int, err error) {
	err = on.QueryRow(ctx, s.sql(`SELECT version, store FROM {}meta`)).Scan(&version, &s.id)
	s.isSealed, s.hasTenants = version&sealedVersion != 0, version&tenantsVersion != 0
	version &^= sealedVersion | tenantsVersion
	if err == nil && version > schemaVersion {
		err = segno.Errorf(segno.KindNewer, "open store", s.name, "the store has version %d, this segno knows %d", version, schemaVersion).
			WithHint("use the newest segno you have")
	}
	return version, err
}

// isUndefined reports whether a schema or a table does not exist.
func isUndefined(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "42P01" || pg.Code == "3F000")
}

// unlock verifies that [Options.Key] is the key of the store or of its tenant, and writes the mark of the key to a new
// one.
func (s *Store) unlock(ctx context.Context, on executor, isNew bool) error {
	switch {
	case s.hasTenants && s.options.Tenant == "":
		return segno.Errorf(segno.KindRefused, "open store", s.name, "the store has tenants, and no tenant was given").
			WithHint("set Options.Tenant")
	case !s.hasTenants && s.options.Tenant != "":
		return segno.Errorf(segno.KindRefused, "open store", s.name, "the store has no tenants, and a tenant was given").
			WithHint("open it without Options.Tenant, or make a new store in another schema")
	case s.hasTenants:
		return s.openTenant(ctx, on)
	}
	var mark record.Mark
	if s.isSealed {
		err := on.QueryRow(ctx, s.sql(`SELECT mark FROM {}seal`)).Scan((*[]byte)(&mark))
		if errors.Is(err, pgx.ErrNoRows) || err != nil && isUndefined(err) {
			err = s.records.Corrupt("open store", s.name, errors.New("the mark of its key is missing"))
		}
		if err != nil {
			return err
		}
	}
	sealer, newMark, err := record.Unlock(s.name, s.options.Key, mark, isNew)
	if err != nil || sealer == nil {
		return err
	}
	s.records.Sealer, s.isSealed = sealer, true
	if mark != nil {
		return nil
	}
	if _, err := on.Exec(ctx, s.sql(`CREATE TABLE {}seal (mark bytea NOT NULL)`)); err != nil {
		return err
	}
	_, err = on.Exec(ctx, s.sql(`INSERT INTO {}seal (mark) VALUES ($1)`), []byte(newMark))
	return err
}
