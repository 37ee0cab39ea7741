package fleetcmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/store/postgres"
)

func (a *app) fleetMigrate() *cobra.Command {
	var to int
	c := &cobra.Command{
		Use: "migrate", Short: "change the version of the store's tables", Args: cobra.NoArgs,
		Long: `Changes the tables of the store in PostgreSQL to the version of this segno, or to another one,
in one transaction. It prints the statements and asks first. Connect as the owner of the tables.
The tables of the queue and of the mailboxes stay as they are.

Usually no migration is needed: a worker upgrades the tables when it starts, if its role may.
With --to they go back, for an older segno: stop the newer programs first, because the next
one that starts upgrades the tables again. A way back that would lose data is refused.`,
		Example: "  segno fleet migrate --store postgres://owner@localhost/fleet --dry-run\n  segno fleet migrate --store postgres://owner@localhost/fleet --to 1",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runFleetMigrate(c.Context(), to) },
	}
	a.WriteFlags(c)
	c.Flags().IntVar(&to, "to", postgres.Version, "the `VERSION`")
	return c
}

// migrationItem is the result of 'segno fleet migrate'.
type migrationItem struct {
	SchemaVersion int             `json:"schema_version"`
	Version       int             `json:"version"` // after the migration
	DryRun        bool            `json:"dry_run,omitempty"`
	Migrations    []migrationStep `json:"migrations"`
}

// migrationStep is a change from one version to the next, or back.
type migrationStep struct {
	From       int      `json:"from"`
	To         int      `json:"to"`
	Statements []string `json:"statements"`
}

func (a *app) runFleetMigrate(ctx context.Context, to int) error {
	if a.useEnvironment(); a.StorePath == "" {
		return cli.Usage(errors.New("--store is missing: the URL of the PostgreSQL database; it may also be in SEGNO_FLEET"))
	}
	pool, err := newPool(ctx, a.StorePath)
	if err != nil {
		return err
	}
	defer pool.Close()
	owner, err := postgres.OpenOwnerPool(pool, postgres.Options{})
	if err != nil {
		return err
	}
	return errors.Join(a.migrate(ctx, owner, to), owner.Close())
}

// migrate shows the plan, asks, and executes it. Migrate makes the plan again, in case another process migrated in between.
func (a *app) migrate(ctx context.Context, owner *postgres.Owner, to int) error {
	plan, err := owner.Plan(ctx, to)
	if err != nil {
		return err
	}
	if len(plan) > 0 && !a.DryRun {
		if !a.Yes {
			p := a.Printer(a.Stderr)
			if writeMigrations(p, plan); p.Err != nil {
				return p.Err
			}
			if err := a.Confirm("migrate"); err != nil {
				return err
			}
		}
		if plan, err = owner.Migrate(ctx, to); err != nil {
			return err
		}
	}
	item := migrationItem{schemaVersion, to, a.DryRun, []migrationStep{}}
	for _, m := range plan {
		item.Migrations = append(item.Migrations, migrationStep(m))
	}
	return a.Print(item, func(p *cli.Printer) {
		switch {
		case len(plan) == 0:
			p.Linef("the store has version %d", to)
		case a.DryRun:
			writeMigrations(p, plan)
		default:
			p.Linef("the store now has version %d", to)
		}
	})
}

// writeMigrations prints a plan.
func writeMigrations(p *cli.Printer, plan []postgres.Migration) {
	for _, m := range plan {
		p.Linef("from version %d to %d:", m.From, m.To)
		for _, s := range m.Statements {
			p.Linef("  %s", s)
		}
	}
}
