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
}

// fleets measures a fleet beside River alone and DBOS, on one PostgreSQL.
func fleets(ctx context.Context, b *bench) (err error) {
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
	t := &fleetTest{bench: b, dir: dir, url: server.URL, pid: server.PID, pool: pool}
	if err := migrateRiver(ctx, pool); err != nil {
		return fmt.Errorf("make River's tables: %w", err)
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"puts", t.puts}, {"statements", t.statements}, {"wakes", t.wakes}, {"turns", t.turns}} {
		fmt.Fprintf(b.talk, "  %s\n", part.name)
		if failed := part.run(ctx); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", part.name, failed))
		}
	}
	return err
}

// wakes measures the time from a wake to the first step.
func (t *fleetTest) wakes(ctx context.Context) error {
	wakes, inserts, err := riverWakes(ctx, t.url, t.pool, 200)
	if err != nil {
		return err
	}
	t.add("", "fleet: River alone: insert of a job", inserts)
	t.add("", fmt.Sprintf("fleet: River alone, 1 worker that fetches at most every %v: insert of a job until its work begins", riverFetchCooldown), wakes,
		is(milliseconds(wakes.quantile(0.99)), "ms at the 99th of 100"))
	return nil
}

// turns measures how many turns a fleet ends in a second.
func (t *fleetTest) turns(ctx context.Context) error {
	for _, n := range []int{1, 2, 4} {
		var times sample
		for range min(t.rounds, 3) {
			one, err := riverJobs(ctx, t.url, t.pool, n, 4000)
			if err != nil {
				return err
			}
			times = append(times, one)
		}
		t.add("", fmt.Sprintf("fleet: River alone, %d workers of %d slots: a job, of 4,000 in the queue", n, fleetSlots), times, perSecond(times, "jobs"))
	}
	return nil
}

// perSecond is the rate of a row whose times are of one item.
func perSecond(s sample, items string) claim {
	return is(float64(time.Second)/float64(s.median()), items+" per second")
}
