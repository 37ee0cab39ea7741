package postgres

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tenantsVersion is a bit in the version of a store with tenants. It makes a segno that does not support
// tenants refuse the store.
const tenantsVersion = 1 << 17

// tenantNumber is the number of the tenant of a transaction, or NULL.
const tenantNumber = `nullif(current_setting('segno.tenant', true), '')::integer`

// tenantsTable creates the table of tenants. Each tenant is a store: store, sealed and mark are what a store without
// tenants has in its tables meta and seal. n is never used again, so a program that still has a deleted tenant open
// cannot write to a later one of the same name.
//
// A role sees the tenant of its transaction, and the one whose name it asks for, unless a login of another role is
// recorded. The owner of the table sees all.
var tenantsTable = []string{`CREATE TABLE {}tenants (
	n integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE,
	store text NOT NULL,
	login text COLLATE "C",
	sealed boolean NOT NULL,
	mark bytea,
	deleted boolean NOT NULL DEFAULT false
)`,
	`ALTER TABLE {}tenants ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY`,
	`CREATE POLICY tenant ON {}tenants FOR SELECT USING (NOT deleted AND (login IS NULL OR login = current_user)
	AND (n = ` + tenantNumber + ` OR name = current_setting('segno.tenant_name', true)))`,
	`CREATE POLICY owner ON {}tenants USING (pg_has_role((SELECT relowner FROM pg_class WHERE oid = '{}tenants'::regclass), 'USAGE'))`}

// tenantPolicy returns the statements that make the rows of a table visible to their tenant only. PostgreSQL
// evaluates the subquery once for each execution of a statement. It returns nothing for a tenant that was deleted.
func tenantPolicy(table, column string) []string {
	return []string{`ALTER TABLE {}` + table + ` ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY`,
		`CREATE POLICY tenant ON {}` + table + ` USING (` + column + ` = (SELECT n FROM {}tenants WHERE n = ` + tenantNumber + ` AND NOT deleted))`}
}

// Separate makes the rows of a table that a program keeps in the store's schema visible to their tenant only, as those of the
// store are; see [Store.InTx]. They are deleted with the tenant. The table has a column tenant_number of the type integer, whose
// default becomes the tenant of the transaction. In a store without tenants Separate does nothing.
func (s *Store) Separate(ctx context.Context, tx pgx.Tx, table string) error {
	if !s.hasTenants {
		return nil
	}
	const column = "tenant_number"
	statements := append([]string{`ALTER TABLE {}` + table + ` ALTER ` + column + ` SET NOT NULL, ALTER ` + column + ` SET DEFAULT ` + tenantNumber + `,
		ADD FOREIGN KEY (` + column + `) REFERENCES {}tenants ON DELETE CASCADE`}, tenantPolicy(table, column)...)
	for _, x := range statements {
		if _, err := tx.Exec(ctx, s.sql(x)); err != nil {
			return err
		}
	}
	return nil
}

// HasTenants reports whether a schema of a database has tenants; "" is "segno". A schema that is missing has none.
func HasTenants(ctx context.Context, pool *pgxpool.Pool, schema string) (has bool, err error) {
	s, err := withPool(pool, Options{Schema: schema})
	if err != nil {
		return false, err
	}
	err = s.call(ctx, "open store", s.name, func(ctx context.Context) error {
		_, err := s.version(ctx, s.pool)
		if isUndefined(err) {
			return nil
		}
		return err
	})
	return s.hasTenants, err
}

// maxTenantName is the largest number of bytes in the name of a tenant.
const maxTenantName = 255

func checkTenantName(op, name string) error {
	if len(name) == 0 || len(name) > maxTenantName || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return segno.Errorf(segno.KindInvalid, op, "", "invalid tenant name %q", name).
			WithHint("use up to 255 bytes of UTF-8 without NUL")
	}
	return nil
}

// checkRole refuses a role that row-level security does not restrict.
func (s *Store) checkRole(ctx context.Context) error {
	var role string
	var bypasses bool
	err := s.pool.QueryRow(ctx, `SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user`).Scan(&role, &bypasses)
	if err == nil && bypasses {
		err = segno.Errorf(segno.KindRefused, "open store", s.name, "the role %q is not restricted by row-level security", role).
			WithHint("connect as a role without SUPERUSER and BYPASSRLS")
	}
	return err
}

// openTenant finds the store's tenant and verifies its key. It creates the tenant if it is missing.
func (s *Store) openTenant(ctx context.Context, tx executor) error {
	name := s.options.Tenant
	var sealed bool
	var mark record.Mark
	read := func() error {
		return tx.QueryRow(ctx, s.sql(`SELECT n, store, sealed, mark FROM {}tenants WHERE name = $1 AND NOT deleted`), name).
			Scan(&s.tenant, &s.id, &sealed, (*[]byte)(&mark))
	}
	if _, err := tx.Exec(ctx, `SELECT set_config('segno.tenant_name', $1, true)`, name); err != nil {
		return err
	}
	err := read()
	if errors.Is(err, pgx.ErrNoRows) {
		if s.options.MustExist {
			return segno.Errorf(segno.KindNotFound, "open store", s.name, "the tenant does not exist").WithHint("check the name of the tenant")
		}
		if err = s.createTenant(ctx, tx, name, "", s.options.Key); err == nil {
			err = read()
		}
	}
	if err != nil {
		return err
	}
	if sealed && mark == nil {
		return s.records.Corrupt("open store", s.name, errors.New("the mark of its key is missing"))
	}
	s.records.Sealer, _, err = record.Unlock(s.name, s.options.Key, mark, false)
	return err
}

// createTenant adds a tenant unless it exists. key is nil for a tenant that is not sealed.
func (s *Store) createTenant(ctx context.Context, tx executor, name, login string, key []byte) error {
	_, mark, err := record.Unlock(s.name, key, nil, true)
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, s.sql(`INSERT INTO {}tenants (name, store, login, sealed, mark) VALUES ($1, $2, nullif($3, ''), $4, $5)
		ON CONFLICT DO NOTHING`), name, segno.NewID(), login, mark != nil, []byte(mark))
	if err != nil || tag.RowsAffected() > 0 {
		return err
	}
	var deleted bool
	err = tx.QueryRow(ctx, s.sql(`SELECT deleted FROM {}tenants WHERE name = $1`), name).Scan(&deleted)
	if err == nil && deleted {
		err = segno.Errorf(segno.KindBusy, "create tenant", name, "a tenant with this name is being deleted").
			WithHint("delete it again to complete the deletion")
	}
	return err
}
