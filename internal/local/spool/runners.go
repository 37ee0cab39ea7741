package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// Process identifies a process, even if another process later has the same pid.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // see proc.Start
}

// Runner is a process of segno that runs an agent.
type Runner struct {
	Process
	Verb    string           `json:"verb"`           // acp, chat or agent
	Agent   Process          `json:"agent,omitzero"` // the leader of its agent's process group, if the agent is another process
	Threads []segno.ThreadID `json:"threads"`        // threads that the agent has worked on
	Command []string         `json:"command"`        // the agent's command, if the agent is another process
	Dir     string           `json:"dir"`            // where the agent was started
}

func (d *Dir) runnerFile(p Process) string {
	return d.file("runners", "runner", fmt.Sprint(p.PID, " ", p.Start), ".json")
}

// KeepRunner saves or replaces the record of a runner.
func (d *Dir) KeepRunner(r Runner) error { return d.keep(d.runnerFile(r.Process), r) }

// RemoveRunner durably removes the record of a process, if there is one.
func (d *Dir) RemoveRunner(p Process) error { return d.remove(d.runnerFile(p)) }

// Runners returns the runners of a thread, or all runners if thread is "". Their processes may have
// ended.
func (d *Dir) Runners(ctx context.Context, thread segno.ThreadID) (all []Runner, err error) {
	defer annotate(&err, "list runners")
	err = readAll(d, "runners", func(r Runner) {
		if thread == "" || slices.Contains(r.Threads, thread) {
			all = append(all, r)
		}
	})
	return all, errors.Join(err, ctx.Err())
}

// Paused is a thread that a user paused.
type Paused struct {
	Thread     segno.ThreadID `json:"thread"`
	Checkpoint segno.CommitID `json:"checkpoint"` // "" while its agent is being stopped
	Verb       string         `json:"verb"`       // verb of the runner
	Command    []string       `json:"command"`
	Time       time.Time      `json:"time"`
}

func (d *Dir) pausedFile(thread segno.ThreadID) string {
	return d.file("paused", "paused", string(thread), ".json")
}

// KeepPaused records durably that a thread is paused, or is about to be.
func (d *Dir) KeepPaused(p Paused) error { return d.keep(d.pausedFile(p.Thread), p) }

// ClearPaused records durably that a thread is no longer paused.
func (d *Dir) ClearPaused(thread segno.ThreadID) error { return d.remove(d.pausedFile(thread)) }

// Paused returns the pause of a thread. is is false if the thread is not paused.
func (d *Dir) Paused(thread segno.ThreadID) (p Paused, is bool, err error) {
	defer annotate(&err, "read pause")
	name := d.pausedFile(thread)
	data, err := d.readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return p, false, nil
	}
	if err == nil {
		if err = json.Unmarshal(data, &p); err != nil {
			err = segno.NewError(segno.KindCorrupt, "read file", name, err)
		}
	}
	return p, err == nil, err
}

// keep durably writes a file with a value.
func (d *Dir) keep(name string, v any) (err error) {
	defer annotate(&err, "write file")
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return d.writeFile(name, data)
}

// readAll calls visit for each readable file of a directory.
func readAll[T any](d *Dir, dir string, visit func(T)) error {
	names, err := d.list(dir, ".json")
	for _, name := range names {
		data, err := d.readFile(name)
		if errors.Is(err, fs.ErrNotExist) || segno.KindOf(err) == segno.KindCorrupt {
			continue // the file was removed, or is damaged
		}
		if err != nil {
			return err
		}
		var v T
		if json.Unmarshal(data, &v) == nil {
			visit(v)
		}
	}
	return err
}
