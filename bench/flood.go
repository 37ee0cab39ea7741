package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// floodCount is the number of updates for one prompt.
const floodCount = 100_000

// floods measures a turn with very many updates: the throughput and the memory, with a
// client that reads and with one that stops reading for a while.
func floods(ctx context.Context, b *bench) error {
	dir, home, err := b.small()
	if err != nil {
		return err
	}
	w, err := b.dial(ctx, dir, home)
	if err != nil {
		return err
	}
	var early, late []float64
	flood := func(over *wire) func(context.Context) error {
		return func(context.Context) error { return over.flood(func(int) error { return nil }) }
	}
	times, err := contest{rounds: b.rounds, warm: true, entrants: []entrant{
		{name: "direct", run: flood(w.direct)},
		{name: "relay", run: flood(w.relay)},
		{name: "segno", run: func(context.Context) error {
			return w.segno.flood(func(n int) error {
				if n == floodCount/10 {
					return w.segno.memory("VmRSS", &early)
				}
				if n == floodCount {
					return w.segno.memory("VmRSS", &late)
				}
				return nil
			})
		}},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	var peak []float64
	if err := w.segno.memory("VmHWM", &peak); err != nil {
		return err
	}
	rate := func(s sample) claim { return is(floodCount/s.median().Seconds(), "messages a second") }
	b.add("", "flood: 100,000 updates, direct", times["direct"], rate(times["direct"]))
	b.add("", "flood: 100,000 updates, relayed", times["relay"], rate(times["relay"]))
	b.add("", "flood: 100,000 updates, through segno", times["segno"], rate(times["segno"]),
		is(times["segno"].over(times["relay"]), "× relay"), is(middle(early), "MB resident after 10,000"), is(middle(late), "MB resident after 100,000"),
		atMost(1.25, middle(late)/middle(early), "× between"), is(peak[0], "MB at most"))
	if err := w.close(); err != nil {
		return err
	}
	return b.stalled(ctx)
}

// stalled measures the memory during a flood whose client does not read for a while.
func (b *bench) stalled(ctx context.Context) error {
	dir, home, err := b.small()
	if err != nil {
		return err
	}
	w, err := b.dial(ctx, dir, home)
	if err != nil {
		return err
	}
	var before, peak []float64
	if err := w.segno.memory("VmHWM", &before); err != nil {
		return err
	}
	start := time.Now()
	err = w.segno.flood(func(n int) error {
		if n == floodCount/100 {
			time.Sleep(3 * time.Second)
		}
		return nil
	})
	if err != nil {
		return err
	}
	took := sample{time.Since(start)}
	if err := w.segno.memory("VmHWM", &peak); err != nil {
		return err
	}
	b.add("", "flood: the same, the client stops for 3 s", took, is(before[0], "MB at most before"), atMost(128, peak[0], "MB at most"))
	return w.close()
}

// flood makes the parrot send floodCount updates, and fails unless all of them arrive.
func (w *wire) flood(each func(int) error) error {
	if err := w.request("session/prompt", prompt(fmt.Sprint("say ", floodCount))); err != nil {
		return err
	}
	n, err := w.updates(each)
	if err == nil && n != floodCount {
		err = fmt.Errorf("%d updates came, not %d", n, floodCount)
	}
	return err
}

// memory appends the process's memory, in MB, to known.
func (w *wire) memory(field string, known *[]float64) error { return memoryOf(w.cmd, field, known) }

// memoryOf appends the memory of a running process, in MB, to known. field is that of /proc/PID/status.
func memoryOf(cmd *exec.Cmd, field string, known *[]float64) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		return err
	}
	kb, err := statusField(string(status), field)
	*known = append(*known, kb*1024/1e6)
	return err
}

// statusField returns a number of /proc/PID/status.
func statusField(status, field string) (float64, error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strconv.ParseFloat(strings.Fields(value)[0], 64)
		}
	}
	return 0, fmt.Errorf("no %s in /proc status", field)
}

func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
