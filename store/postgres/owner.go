package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Owner administers a schema: its tenants, the roles that use it, and its version. It connects as the owner of the
// schema's tables, or as a superuser. Its methods may be called while programs use the store. They may not be called
// concurrently.
type Owner struct{ s *Store }

// OpenOwner connects to a database. It does not create or change the schema. Of the options it uses Schema, Bucket and
// Patience. The caller closes the Owner.
func OpenOwner(ctx context.Context, url string, o Options) (*Owner, error) {
	s, err := connect(ctx, url, Options{Schema: o.Schema, Bucket: o.Bucket, Patience: o.Patience}, func(*pgxpool.Config) {})
	if err != nil {
		return nil, err
	}
	return &Owner{s}, nil
}

// OpenOwnerPool is [OpenOwner] with the connections of a pool, which the caller closes after the Owner.
func OpenOwnerPool(pool *pgxpool.Pool, o Options) (*Owner, error) {
	s, err := withPool(pool, Options{Schema: o.Schema, Bucket: o.Bucket, Patience: o.Patience})
	if err != nil {
		return nil, err
	}
	return &Owner{s}, nil
}

// Close closes the connections that [OpenOwner] made.
func (o *Owner) Close() error { return o.s.Close() }

// needTenants returns an error if the store has no tenants. The version must have been read before.
func (o *Owner) needTenants(op string) error {
	if o.s.hasTenants {
		return nil
	}
	return segno.Errorf(segno.KindRefused, op, o.s.name, "the store has no tenants").WithHint("name a schema with tenants")
}

// Tenant is a tenant of a schema.
type Tenant struct {
	Name string
	// Login is the only role that may open the tenant. "" means each role with the privileges of [Owner.Grant].
	Login string
	// IsSealed reports whether the tenant was created with a key.
	IsSealed bool
	// IsDeleted reports whether a deletion of the tenant was interrupted: its rows are deleted, and its bucket may
	// contain bodies. Another [Owner.DeleteTenant] completes the deletion.
	IsDeleted bool
}

// Tenants lists the tenants by name.
func (o *Owner) Tenants(ctx context.Context) iter.Seq2[Tenant, error] {
	const op = "list tenants"
	return func(yield func(Tenant, error) bool) {
		var t Tenant
		var all []Tenant
		err := o.s.call(ctx, op, o.s.name, func(ctx context.Context) error {
			_, err := o.s.version(ctx, o.s.pool)
			if err == nil {
				err = o.needTenants(op)
			}
			if err != nil {
				return err
			}
			all = nil
			return querier{o.s, o.s.pool}.Query(ctx, `SELECT name, coalesce(login, ''), sealed, deleted FROM {}tenants ORDER BY name`,
				nil, []any{&t.Name, &t.Login, &t.IsSealed, &t.IsDeleted}, func() error {
					all = append(all, t)
					return nil
				})
		})
		if err != nil {
			yield(t, err)
			return
		}
		for _, t := range all {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// CreateTenant creates a tenant, and the schema with tenants if it is missing. It does nothing if the tenant
// exists. key is the [Options.Key] of a sealed tenant, or nil. If login is a role, only that role may open the tenant:
// not even SQL that another role executes can read its rows.
func (o *Owner) CreateTenant(ctx context.Context, name, login string, key []byte) error {
	const op = "create tenant"
	if err := checkTenantName(op, name); err != nil {
		return err
	}
	return o.s.call(ctx, op, name, func(ctx context.Context) error {
		return o.s.changeSchema(ctx, op, func(tx pgx.Tx) error {
			version, _, err := o.s.createMeta(ctx, tx, true)
			if err == nil {
				err = o.needTenants(op)
			}
			if err != nil {
				return err
			}
			if err := o.s.upgradeFrom(ctx, tx, version); err != nil {
				return err
			}
			return o.s.createTenant(ctx, tx, name, login, key)
		})
	})
}

// DeleteTenant deletes all rows and bodies of a tenant, and the tenant. Programs that have it open can read and write
// nothing from then on, not even in a later tenant of the same name. If it is interrupted, another call completes it. If the
// Owner was opened without the bucket of the store, the bodies in the bucket stay.
// The package comment lists the copies that PostgreSQL and the bucket may keep.
func (o *Owner) DeleteTenant(ctx context.Context, name string) error {
	const op = "delete tenant"
	return o.s.call(ctx, op, name, func(ctx context.Context) error {
		var n int32
		var store string
		err := o.s.changeSchema(ctx, op, func(tx pgx.Tx) error {
			_, err := o.s.version(ctx, tx)
			if err == nil {
				err = o.needTenants(op)
			}
			if err != nil {
				return err
			}
			err = tx.QueryRow(ctx, o.s.sql(`SELECT n, store FROM {}tenants WHERE name = $1`), name).Scan(&n, &store)
			if errors.Is(err, pgx.ErrNoRows) {
				err = notFound(op, name)
			}
			if err != nil {
				return err
			}
			return o.deleteRows(ctx, tx, n)
		})
		if err == nil && o.s.options.Bucket != nil {
			err = o.emptyBucket(ctx, op, store)
		}
		if err == nil {
			_, err = o.s.pool.Exec(ctx, o.s.sql(`DELETE FROM {}tenants WHERE n = $1`), n)
		}
		return err
	})
}

// deleteRows deletes the rows of a tenant. It waits for the writers of the tenant.
func (o *Owner) deleteRows(ctx context.Context, tx pgx.Tx, n int32) error {
	if _, err := tx.Exec(ctx, setTenant+`, pg_advisory_xact_lock($2, $3)`, fmt.Sprint(n), o.s.lockClass(), n); err != nil {
		return err
	}
	for i := range migrations {
		for _, table := range migrations[i].tables {
			if _, err := tx.Exec(ctx, o.s.sql(`DELETE FROM {}`+table+` WHERE tenant = $1`), n); err != nil {
				return err
			}
		}
	}
	_, err := tx.Exec(ctx, o.s.sql(`UPDATE {}tenants SET deleted = true WHERE n = $1`), n)
	return err
}

// emptyBucket deletes the bodies of a tenant.
func (o *Owner) emptyBucket(ctx context.Context, op, store string) error {
	for name, err := range o.s.options.Bucket.List(ctx, bucketPrefix+store+"/") {
		if err == nil {
			err = o.s.options.Bucket.Delete(ctx, name)
		}
		if err != nil {
			return bucketError(op, name, err)
		}
	}
	return nil
}

// NewID gives the store another id, and each of its tenants. Call it for a copy of a database that uses the same bucket as
// the original, before any program opens the copy: the copy then reads the bodies of both, and deletes none of the
// original's. Without it, a collection of the copy deletes the bodies that only the original names.
func (o *Owner) NewID(ctx context.Context) error {
	return o.s.call(ctx, "change id", o.s.name, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, o.s.pool, func(tx pgx.Tx) error {
			_, err := o.s.version(ctx, tx)
			if err == nil {
				_, err = tx.Exec(ctx, o.s.sql(`UPDATE {}meta SET store = $1`), segno.NewID())
			}
			if err != nil || !o.s.hasTenants {
				return err
			}
			var all []int32
			var n int32
			if err := (querier{o.s, tx}).Query(ctx, `SELECT n FROM {}tenants`, nil, []any{&n}, func() error {
				all = append(all, n)
				return nil
			}); err != nil {
				return err
			}
			for _, n := range all {
				if _, err := tx.Exec(ctx, o.s.sql(`UPDATE {}tenants SET store = $1 WHERE n = $2`), segno.NewID(), n); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Grant gives a role the privileges that a program needs to open the store or its tenants, and none to change the
// schema or to create tenants. Call it again after an upgrade.
func (o *Owner) Grant(ctx context.Context, role string) error {
	return o.s.call(ctx, "grant privileges", role, func(ctx context.Context) error {
		to := " TO " + pgx.Identifier{role}.Sanitize()
		return pgx.BeginFunc(ctx, o.s.pool, func(tx pgx.Tx) error {
			_, err := o.s.version(ctx, tx)
			if err != nil {
				return err
			}
			all := []change{{`GRANT USAGE ON SCHEMA ` + o.s.schema + to, nil},
				{`GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA ` + o.s.schema + to, nil},
				{`GRANT SELECT ON {}meta` + to, nil}}
			if o.s.hasTenants {
				all = append(all, change{`GRANT SELECT ON {}tenants` + to, nil})
			}
			if o.s.isSealed {
				all = append(all, change{`GRANT SELECT ON {}seal` + to, nil})
			}
			for i := range migrations {
				for _, table := range migrations[i].tables {
					all = append(all, change{`GRANT SELECT, INSERT, UPDATE, DELETE ON {}` + table + to, nil})
				}
			}
			return o.s.execAll(ctx, tx, all)
		})
	})
}
