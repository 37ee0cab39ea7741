package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// fleetSlots is the number of jobs that a worker runs at the same time.
const fleetSlots = 10

// riverJob is the job of River alone. It is as large as one that names a thread and its head.
type riverJob struct {
	Thread string `json:"thread"`
	Head   string `json:"head"`
}

func (riverJob) Kind() string { return "bench" }

// riverWork prints the time at which a job's work began.
type riverWork struct {
	river.WorkerDefaults[riverJob]
	prints bool
}

func (w riverWork) Work(_ context.Context, job *river.Job[riverJob]) error {
	if !w.prints {
		return nil
	}
	_, err := os.Stdout.WriteString(fmt.Sprintln(job.Args.Thread, time.Now().UnixNano())) // one system call
	return err
}

// riverSchema is the schema of River's tables when River is measured alone.
const riverSchema = "river_alone"

// riverClient returns a client for the schema riverSchema. If slots is 0, it only inserts.
func riverClient(pool *pgxpool.Pool, slots int, work riverWork) (*river.Client[pgx.Tx], error) {
	c := &river.Config{Schema: riverSchema, Logger: slog.New(slog.DiscardHandler), FetchCooldown: riverFetchCooldown}
	if slots > 0 {
		c.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}}
		c.Workers = river.NewWorkers()
		river.AddWorker(c.Workers, work)
	}
	return river.NewClient(riverpgxv5.New(pool), c)
}

// riverFetchCooldown is the shortest time between two fetches of a client, and between two notifications of a client that
// inserts. With River's default, 100 ms, a job that is inserted within 100 ms after another one would wait for a poll.
const riverFetchCooldown = 5 * time.Millisecond

// migrateRiver makes River's tables.
func migrateRiver(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+riverSchema); err != nil {
		return err
	}
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: riverSchema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// emptyRiver removes all jobs.
func emptyRiver(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, "TRUNCATE "+riverSchema+".river_job")
	return err
}

// riverWorker is the process of a worker of River alone. It prints "ready", and then each job if told to. It ends
// with its standard input.
func riverWorker(url string, prints bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := riverClient(pool, fleetSlots, riverWork{prints: prints})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, client.Stop(context.WithoutCancel(ctx)))
}

// workerProcess is a process of a worker, which ends when its standard input does.
type workerProcess struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

// startWorker starts this program in a role and waits until it is ready.
func startWorker(ctx context.Context, role ...string) (*workerProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &workerProcess{cmd: exec.CommandContext(ctx, self, role...)}
	w.cmd.Stderr = os.Stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	w.lines = bufio.NewScanner(out)
	if !w.lines.Scan() || w.lines.Text() != "ready" {
		return nil, errors.Join(fmt.Errorf("worker %v began with %q", role, w.lines.Text()), w.stop())
	}
	return w, nil
}

func (w *workerProcess) stop() error { return errors.Join(w.in.Close(), w.cmd.Wait()) }

// began waits for the line about the work of a thread, and returns the time at which the work began.
func (w *workerProcess) began(thread string) (time.Time, error) {
	for w.lines.Scan() {
		var of string
		var at int64
		if _, err := fmt.Sscan(w.lines.Text(), &of, &at); err != nil {
			return time.Time{}, err
		}
		if of == thread {
			return time.Unix(0, at), nil
		}
	}
	return time.Time{}, errors.Join(errors.New("the worker ended"), w.lines.Err())
}

// startWorkers starts n workers in a role.
func startWorkers(ctx context.Context, n int, role ...string) (all []*workerProcess, err error) {
	for range n {
		w, err := startWorker(ctx, role...)
		if err != nil {
			return nil, errors.Join(err, stopWorkers(all))
		}
		all = append(all, w)
	}
	return all, nil
}

func stopWorkers(all []*workerProcess) (err error) {
	for _, w := range all {
		err = errors.Join(err, w.stop())
	}
	return err
}

// riverWakes measures the time from the insert of a job to the beginning of its work, one job at a time.
func riverWakes(ctx context.Context, url string, pool *pgxpool.Pool, rounds int) (wakes, inserts sample, err error) {
	if err := emptyRiver(ctx, pool); err != nil {
		return nil, nil, err
	}
	client, err := riverClient(pool, 0, riverWork{})
	if err != nil {
		return nil, nil, err
	}
	w, err := startWorker(ctx, "riverworker", url, "prints")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	for n := range rounds {
		if err := pause(ctx, 4*riverFetchCooldown); err != nil { // the wakes of a fleet are apart; see riverFetchCooldown
			return nil, nil, err
		}
		thread := "t" + strconv.Itoa(n)
		sent := time.Now()
		if _, err := client.Insert(ctx, riverJob{Thread: thread}, nil); err != nil {
			return nil, nil, err
		}
		inserts = append(inserts, time.Since(sent))
		at, err := w.began(thread)
		if err != nil {
			return nil, nil, err
		}
		wakes = append(wakes, at.Sub(sent))
	}
	return wakes, inserts, nil
}

// riverJobs measures jobs that n workers find in the queue: the time of one job if all of them together take the time
// between the tenth and the ninetieth of a hundred, so that the start of the processes does not count.
func riverJobs(ctx context.Context, url string, pool *pgxpool.Pool, n, jobs int) (time.Duration, error) {
	if err := emptyRiver(ctx, pool); err != nil {
		return 0, err
	}
	client, err := riverClient(pool, 0, riverWork{})
	if err != nil {
		return 0, err
	}
	for i := range jobs { // one transaction each, as a prompt is sent
		if _, err := client.Insert(ctx, riverJob{Thread: "t" + strconv.Itoa(i)}, nil); err != nil {
			return 0, err
		}
	}
	workers, err := startWorkers(ctx, n, "riverworker", url, "silent")
	if err != nil {
		return 0, err
	}
	done := "SELECT count(*) FROM " + riverSchema + ".river_job WHERE state = 'completed'"
	return perItem(ctx, pool, done, "SELECT finalized_at FROM "+riverSchema+".river_job", jobs, workers)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// perItem waits until a count is reached and stops the workers. Then it returns the time per item, from the times at which
// the items ended.
func perItem(ctx context.Context, pool *pgxpool.Pool, count, times string, items int, workers []*workerProcess) (time.Duration, error) {
	for done := 0; done < items; {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, errors.Join(err, stopWorkers(workers))
		}
		if err := pool.QueryRow(ctx, count).Scan(&done); err != nil {
			return 0, errors.Join(err, stopWorkers(workers))
		}
	}
	if err := stopWorkers(workers); err != nil {
		return 0, err
	}
	rows, err := pool.Query(ctx, times+" ORDER BY 1")
	if err != nil {
		return 0, err
	}
	ends, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return 0, err
	}
	first, last := items/10, items*9/10
	return ends[last].Sub(ends[first]) / time.Duration(last-first), nil
}
