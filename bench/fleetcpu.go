package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/postgres"
)

// serverCPU returns the time that all processes of a server have used on cores, in user mode and in the kernel. It includes
// the processes that have ended.
func serverCPU(pid int) (time.Duration, error) {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	sum, err := processTicks(strconv.Itoa(pid), 13, 17)
	if err != nil {
		return 0, err
	}
	for _, child := range strings.Fields(string(list)) {
		if ticks, err := processTicks(child, 13, 15); err == nil { // it may have ended
			sum += ticks
		}
	}
	const tick = time.Second / 100 // USER_HZ of Linux
	return time.Duration(sum) * tick, nil
}

// processTicks sums the fields [from, to) of /proc/PID/stat, counted from 0.
func processTicks(pid string, from, to int) (sum int64, err error) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), ") ") // the name may contain spaces
	fields := strings.Fields(after)
	for _, field := range fields[from-2 : to-2] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += ticks
	}
	return sum, nil
}

// addCPU measures the time and the server's CPU of one operation, which run does n times.
func (t *fleetTest) addCPU(ctx context.Context, what string, n int, run func(ctx context.Context, i int) error) error {
	before, err := serverCPU(t.pid)
	if err != nil {
		return err
	}
	times := make(sample, 0, n)
	for i := range n {
		began := time.Now()
		if err := run(ctx, i); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		times = append(times, time.Since(began))
	}
	after, err := serverCPU(t.pid)
	if err != nil {
		return err
	}
	t.add("", "fleet: "+what, times, cpuEach(after-before, n))
	return nil
}

func cpuEach(used time.Duration, n int) claim {
	return is(float64(used.Microseconds())/float64(n), "µs of the server's CPU")
}

// statements measures the statements of which the cost of a fleet is composed.
func (t *fleetTest) statements(ctx context.Context) error {
	store, err := postgres.OpenPool(ctx, t.pool, postgres.Options{Schema: "statements"})
	if err != nil {
		return err
	}
	defer store.Close()
	head, err := store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "steps", Create: &segno.Thread{ID: "steps"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: time.Now()}})
	if err != nil {
		return err
	}
	body := []byte(`{"role":"assistant","content":[{"type":"text","text":"` + strings.Repeat("The order has been sent. ", 80) + `"}]}`)
	if err := t.addCPU(ctx, "statement: segno's commit of 2 KB", 2000, func(ctx context.Context, _ int) (err error) {
		head, err = store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "steps", Parent: head.Head, Expect: head.Head,
			Entries:    []segno.Entry{{Kind: segno.EntryMessage, Turn: 1, Time: time.Now(), Name: "agent", Body: body}},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 1, Time: time.Now(), Agent: "bench"}})
		return err
	}); err != nil {
		return err
	}
	if err := t.addCPU(ctx, "statement: segno's lease, acquired and released", 1000, func(ctx context.Context, i int) error {
		l, err := store.Acquire(ctx, segno.Lease{Thread: "steps", Owner: "o" + strconv.Itoa(i), Expires: time.Now().Add(time.Minute)})
		if err == nil {
			err = store.Release(ctx, l)
		}
		return err
	}); err != nil {
		return err
	}
	return t.riverStatements(ctx)
}

// riverStatements measures River's.
func (t *fleetTest) riverStatements(ctx context.Context) error {
	if err := emptyRiver(ctx, t.pool); err != nil {
		return err
	}
	client, err := riverClient(t.pool, 0, riverWork{})
	if err != nil {
		return err
	}
	exec := riverpgxv5.New(t.pool).GetExecutor()
	fetch := func(ctx context.Context, most, want int) error {
		got, err := exec.JobGetAvailable(ctx, &riverdriver.JobGetAvailableParams{ClientID: "bench", MaxAttemptedBy: 100, MaxToLock: most,
			Queue: river.QueueDefault, Schema: riverSchema})
		if err == nil && len(got.Jobs) != want {
			err = fmt.Errorf("%d jobs fetched, not %d", len(got.Jobs), want)
		}
		return err
	}
	if err := t.addCPU(ctx, "statement: River's fetch that finds nothing", 2000, func(ctx context.Context, _ int) error { return fetch(ctx, fleetSlots, 0) }); err != nil {
		return err
	}
	const jobs = 2000
	if err := t.addCPU(ctx, "statement: River's insert of a job", jobs, func(ctx context.Context, i int) error {
		_, err := client.Insert(ctx, riverJob{Thread: "t" + strconv.Itoa(i)}, nil)
		return err
	}); err != nil {
		return err
	}
	return t.addCPU(ctx, "statement: River's fetch of 10 jobs", jobs/fleetSlots, func(ctx context.Context, _ int) error { return fetch(ctx, fleetSlots, fleetSlots) })
}
