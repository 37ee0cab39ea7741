package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dalsegno/segno/internal/testing/serverrig"
)

// fleetTest is the server of the section fleet, which all its programs use.
type fleetTest struct {
	*bench
	dir, url string
	pid      int // of the server
	pool     *pgxpool.Pool
	sleepers int // the number of threads that sleep
}

// fleets returns the section that measures a fleet beside River alone and DBOS, on one PostgreSQL.
func fleets(sleepers int) func(ctx context.Context, b *bench) error {
	return func(ctx context.Context, b *bench) error { return b.fleet(ctx, sleepers) }
}

func (b *bench) fleet(ctx context.Context, sleepers int) (err error) {
	dir, err := b.scratch("fleet")
	if err != nil {
		return err
	}
	for _, way := range []string{filepath.Dir(dir), dir} { // PostgreSQL runs as another user than root
		if err := os.Chmod(way, 0o755); err != nil {
			return err
		}
	}
	server, err := serverrig.Postgres(ctx, filepath.Join(dir, "pg"))
	if err != nil {
		return err
	}
	defer server.Stop()
	pool, err := pgxpool.New(ctx, server.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	t := &fleetTest{bench: b, dir: dir, url: server.URL, pid: server.PID, pool: pool, sleepers: sleepers}
	if err := migrateRiver(ctx, pool); err != nil {
		return fmt.Errorf("make River's tables: %w", err)
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"puts", t.puts}, {"statements", t.statements}, {"wakes", t.wakes}, {"turns", t.turns}, {"sleepers", t.sleep}} {
		fmt.Fprintf(b.talk, "  %s\n", part.name)
		if failed := part.run(ctx); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", part.name, failed))
		}
	}
	return err
}

// perSecond is the rate of a row whose times are of one item.
func perSecond(s sample, items string) claim {
	return is(float64(time.Second)/float64(s.median()), items+" per second")
}
