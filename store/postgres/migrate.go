package postgres

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
)

// Version is the version of the schema that this package writes. [Open] upgrades an older schema to it.
const Version = schemaVersion

// Migration is a change of the schema from one version to the next, or back to the one before.
type Migration struct {
	From, To   int
	Statements []string // as PostgreSQL executes them
}

// Plan returns the migrations that change the schema to a version, and changes nothing. It returns none if the schema
// has that version. The error is [segno.KindRefused] if a migration back would lose data.
func (o *Owner) Plan(ctx context.Context, to int) (plan []Migration, err error) {
	const op = "plan migration"
	err = o.s.call(ctx, op, o.s.name, func(ctx context.Context) error {
		version, err := o.s.version(ctx, o.s.pool)
		if err == nil {
			plan, err = o.s.plan(op, version, to)
		}
		if isUndefined(err) {
			err = segno.Errorf(segno.KindNotFound, op, o.s.name, "the database has no store").WithHint("check the name of the database")
		}
		return err
	})
	return plan, err
}

// Migrate changes the schema to a version in one transaction, and returns the migrations that it executed. If it is
// interrupted, the schema has either the old or the new version. A way back is for a program that needs an older
// version: stop the programs that know only the newer one first. The next [Open] of a newer program upgrades the schema
// again.
func (o *Owner) Migrate(ctx context.Context, to int) (plan []Migration, err error) {
	const op = "migrate"
	err = o.s.call(ctx, op, o.s.name, func(ctx context.Context) error {
		return o.s.changeSchema(ctx, op, func(tx pgx.Tx) error {
			version, err := o.s.version(ctx, tx)
			if err == nil {
				plan, err = o.s.plan(op, version, to)
			}
			if err != nil || len(plan) == 0 {
				return err
			}
			return o.s.runPlan(ctx, tx, plan)
		})
	})
	return plan, err
}

// plan returns the migrations between two versions.
func (s *Store) plan(op string, from, to int) (plan []Migration, err error) {
	if to < 1 || to > schemaVersion {
		return nil, segno.Errorf(segno.KindInvalid, op, s.name, "unknown version %d", to).
			WithHint(fmt.Sprintf("name a version from 1 to %d", schemaVersion))
	}
	add := func(next int, statements []string) {
		m := Migration{From: from, To: next}
		for _, x := range statements {
			m.Statements = append(m.Statements, s.sql(x))
		}
		plan, from = append(plan, m), next
	}
	for from < to {
		add(from+1, s.upgrade(&migrations[from]))
	}
	for from > to {
		m := &migrations[from-1]
		if len(m.down) == 0 {
			return nil, segno.Errorf(segno.KindRefused, op, s.name, "version %d has no way back: %s", from, m.keeps)
		}
		add(from-1, s.statements(m.down))
	}
	return plan, nil
}

// runPlan executes migrations and records the last version.
func (s *Store) runPlan(ctx context.Context, tx pgx.Tx, plan []Migration) error {
	version := 0
	for _, m := range plan {
		for _, x := range m.Statements {
			if _, err := tx.Exec(ctx, x); err != nil {
				return fmt.Errorf("migrating from version %d to %d: %w", m.From, m.To, err)
			}
		}
		version = m.To
	}
	if s.isSealed {
		version |= sealedVersion
	}
	if s.hasTenants {
		version |= tenantsVersion
	}
	_, err := tx.Exec(ctx, s.sql(`UPDATE {}meta SET version = $1`), version)
	return err
}
