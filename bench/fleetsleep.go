package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dalsegno/segno/fleet"
)

// idleTime is how long the CPU of an idle fleet is measured.
const idleTime = 20 * time.Second

// sleep measures what threads cost that sleep for days: rows, bytes, and the CPU of the server and of a worker.
func (t *fleetTest) sleep(ctx context.Context) (err error) {
	f, err := openFleet(ctx, t.pool)
	if err != nil {
		return err
	}
	defer f.Close()
	idle, err := t.idleCPU(ctx)
	if err != nil {
		return err
	}
	rows, bytes, err := t.size(ctx)
	if err != nil {
		return err
	}
	workers, err := startWorkers(ctx, 2, "fleetworker", t.url, "silent")
	if err != nil {
		return err
	}
	began := time.Now()
	err = parallel(t.sleepers, func(i int) error { return send(ctx, f, "sleep-"+strconv.Itoa(i), promptSleep) })
	for waiting := int64(0); err == nil && waiting < int64(t.sleepers); err = pause(ctx, 50*time.Millisecond) {
		waiting, err = t.waiting(ctx, f)
		if err != nil {
			break
		}
	}
	took := time.Since(began)
	if err := errors.Join(err, stopWorkers(workers)); err != nil {
		return err
	}
	moreRows, moreBytes, err := t.size(ctx)
	if err != nil {
		return err
	}
	asleep, err := t.idleCPU(ctx)
	if err != nil {
		return err
	}
	n := float64(t.sleepers)
	t.add("", fmt.Sprintf("fleet: %d threads fall asleep, each", t.sleepers), sample{took / time.Duration(t.sleepers)},
		is(float64(moreRows-rows)/n, "rows per thread"), is(float64(moreBytes-bytes)/n, "bytes per thread, with indexes"))
	t.add("", "fleet: CPU of the server in a minute, 1 worker, no thread sleeps", sample{idle})
	t.add("", fmt.Sprintf("fleet: CPU of the server in a minute, 1 worker, %d threads sleep", t.sleepers), sample{asleep})
	return nil
}

// waiting counts the prompts that wait.
func (t *fleetTest) waiting(ctx context.Context, f *fleet.Fleet) (n int64, err error) {
	status, err := f.Status(ctx)
	for _, c := range status.Open {
		if c.State == fleet.StateWaiting {
			n += c.Count
		}
	}
	return n, err
}

// idleCPU returns the CPU of the server in a minute, while one worker has nothing to do.
func (t *fleetTest) idleCPU(ctx context.Context) (time.Duration, error) {
	workers, err := startWorkers(ctx, 1, "fleetworker", t.url, "silent")
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, 2*time.Second); err != nil { // it starts
		return 0, errors.Join(err, stopWorkers(workers))
	}
	_, used, err := t.withCPU(func() (time.Duration, error) { return 0, pause(ctx, idleTime) })
	return used * time.Duration(time.Minute/idleTime), errors.Join(err, stopWorkers(workers))
}

// size returns the rows and the bytes of the fleet's schema, after the dead rows were removed.
func (t *fleetTest) size(ctx context.Context) (rows, bytes int64, err error) {
	tables := `SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = $1::regnamespace`
	list, err := t.pool.Query(ctx, tables, fleetSchema)
	if err != nil {
		return 0, 0, err
	}
	var names []string
	for list.Next() {
		var name string
		if err := list.Scan(&name); err != nil {
			return 0, 0, err
		}
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		if _, err := t.pool.Exec(ctx, "VACUUM FULL "+name); err != nil {
			return 0, 0, err
		}
		var n, size int64
		if err := t.pool.QueryRow(ctx, "SELECT (SELECT count(*) FROM "+name+"), pg_total_relation_size($1::regclass)", name).Scan(&n, &size); err != nil {
			return 0, 0, err
		}
		rows, bytes = rows+n, bytes+size
	}
	return rows, bytes, nil
}
