package generation

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

const (
	// runFile is in the directory of a run. It is the truth about the attempt; generation_chain.csv follows it.
	runFile = "run.json"
	// attemptsDir has a symlink for each attempt, which leads to the directory of its run. An attempt keeps its id, and its
	// directory gets another name when another attempt takes its place.
	attemptsDir = "attempts"
)

// runRecord is run.json.
type runRecord struct {
	Generation int    `json:"generation"`
	ID         string `json:"run_id"` // of the attempt
	// Start is when the attempt began.
	Start time.Time `json:"start_utc"`
	// Resumed is the archive that the attempt began with, relative to the directory of the runs, or "".
	Resumed string `json:"resumed,omitempty"`
	// Settings are those of the experiment that decide what happens.
	Settings segno.Hash `json:"settings_hash,omitzero"`
	State    runState   `json:"state,omitempty"`
	// Rows are those of the attempt in the chain: as they were at its last checkpoint, until it ends.
	Rows []Row `json:"rows,omitempty"`
}

// runState is how an attempt ended; "" is not, or its runner was killed.
type runState string

const (
	runCompleted runState = "completed"
	runFailed    runState = "failed"
	runStopped   runState = "stopped" // by the user; another attempt may go on
)

// attemptID names an attempt by the name of its run, which all attempts of a generation share because agents see it.
func attemptID(run string, n int) string { return fmt.Sprintf("%s-a%d", run, n) }

// attemptNumber is the counterpart of attemptID, or 0.
func attemptNumber(run, id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, run+"-a"))
	if err != nil {
		return 0
	}
	return n
}

// workspaceOut is the path of what an agent left in an attempt, relative to the directory of the runs.
func (r *Runner) workspaceOut(id, agent string) string {
	return strings.Join([]string{r.Experiment.Name, attemptsDir, id, "agents", agent, "workspace"}, "/")
}

// foundRun is a directory with the record of an attempt.
type foundRun struct {
	runRecord
	dir string
	end string // of the directory's name, such as "failed"; "" is in place
}

// runs returns the directories of all attempts of the experiment, oldest first. A directory without a record that can be read
// has no attempt.
func (r *Runner) runs() (all []foundRun, err error) {
	found, err := filepath.Glob(filepath.Join(globQuote(r.Out), r.Experiment.Name+"-g[0-9][0-9][0-9]*"))
	for _, dir := range found {
		run := foundRun{dir: dir}
		base := filepath.Base(dir)
		if parts := earlierName.FindStringSubmatch(base); parts != nil {
			run.end, base = parts[1], strings.TrimSuffix(base, parts[0])
		}
		if known, err := readJSON(dir, runFile, &run.runRecord); err == nil && known && base == r.runID(run.Generation) {
			all = append(all, run)
		}
	}
	slices.SortStableFunc(all, func(a, b foundRun) int { return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.dir, b.dir)) })
	return all, err
}

// status returns how the attempt of a run ended, or "" if it goes on or may go on.
func (f foundRun) status() RowStatus {
	switch {
	case f.State == runFailed, f.State == "" && f.end == endFailed:
		return RowFailed
	case f.end != "":
		return RowSuperseded
	case f.State == runCompleted:
		return RowCompleted
	}
	return ""
}

// updateChain makes the chain and the symlinks of the attempts what the directories of the runs say. It does nothing twice, so whatever a
// runner that was killed left undone is done by the next one. Rows of runs whose directories are gone stay.
func (r *Runner) updateChain() error {
	rows, err := readChain(r.dir)
	if err != nil {
		return err
	}
	runs, err := r.runs()
	if err != nil {
		return err
	}
	chain := newAttemptRows(rows)
	for _, run := range runs {
		if run.ID == "" {
			if err := r.upgradeRun(&run, rows, runs); err != nil {
				return err
			}
		}
		if err := r.linkAttempt(run.ID, run.dir); err != nil {
			return segno.NewError(segno.KindIO, "link attempt", run.ID, err)
		}
		if status := run.status(); status != "" {
			chain.set(run.ID, run.Rows, status)
		}
	}
	if len(chain.ids) == 0 {
		return nil
	}
	if err := writeChain(r.FS, r.dir, chain.all()); err != nil {
		return segno.NewError(segno.KindIO, "write chain", r.Experiment.Name, err)
	}
	return nil
}

// attemptRows are the rows of a chain by their attempts.
type attemptRows struct {
	ids  []string // in the order of the rows
	rows map[string][]Row
}

func newAttemptRows(all []Row) *attemptRows {
	c := &attemptRows{rows: map[string][]Row{}}
	for _, r := range all {
		if c.rows[r.Run] == nil {
			c.ids = append(c.ids, r.Run)
		}
		c.rows[r.Run] = append(c.rows[r.Run], r)
	}
	return c
}

// set replaces the rows of an attempt, or adds them at the end.
func (c *attemptRows) set(id string, rows []Row, status RowStatus) {
	if len(rows) == 0 {
		return // an earlier version of segno recorded the run, and it failed
	}
	if c.rows[id] == nil {
		c.ids = append(c.ids, id)
	}
	c.rows[id] = slices.Clone(rows)
	for i := range rows {
		c.rows[id][i].Status = status
	}
}

func (c *attemptRows) all() (all []Row) {
	for _, id := range c.ids {
		all = append(all, c.rows[id]...)
	}
	return all
}

// upgradeRun gives an id to a run that an earlier version of segno recorded. Rows that it wrote then have the time at which the run began.
func (r *Runner) upgradeRun(run *foundRun, rows []Row, runs []foundRun) error {
	for _, row := range rows {
		if row.Generation == run.Generation && row.Start.Equal(run.Start) {
			run.ID = row.Run
			if row.Status == RowCompleted {
				run.State = runCompleted
			}
			row.WorkspaceOut = r.workspaceOut(row.Run, row.Agent)
			run.Rows = append(run.Rows, row)
		}
	}
	if run.ID == "" {
		run.ID = r.nextAttempt(run.Generation, rows, runs)
	}
	for i := range runs {
		if runs[i].dir == run.dir {
			runs[i] = *run
		}
	}
	return r.writeRun(run.dir, run.runRecord)
}

// nextAttempt returns the id of a new attempt.
func (r *Runner) nextAttempt(g int, rows []Row, runs []foundRun) string {
	newest := 0
	for _, row := range rows {
		newest = max(newest, attemptNumber(r.runID(g), row.Run))
	}
	for _, run := range runs {
		newest = max(newest, attemptNumber(r.runID(g), run.ID))
	}
	return attemptID(r.runID(g), newest+1)
}

func (r *Runner) writeRun(dir string, record runRecord) error {
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	return vfs.Replace(r.FS, filepath.Join(dir, runFile), append(data, '\n'), 0o600)
}

// linkAttempt makes the symlink of an attempt lead to a directory. Until then it leads where it led, or to no directory.
func (r *Runner) linkAttempt(id, dir string) error {
	links := filepath.Join(r.dir, attemptsDir)
	target, err := filepath.Rel(links, dir)
	if err != nil {
		return err
	}
	link := filepath.Join(links, id)
	if now, err := os.Readlink(link); err == nil && now == target {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := vfs.MkdirAllSynced(r.FS, links); err != nil {
		return err
	}
	temp := filepath.Join(links, ".segno-"+rand.Text())
	if err := r.FS.Symlink(target, temp); err != nil {
		return err
	}
	if err := r.FS.Rename(temp, link); err != nil {
		return errors.Join(err, r.FS.Remove(temp))
	}
	return r.FS.SyncDir(links)
}
