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
	// attemptsDir has a symlink for each attempt, to the directory of its run. An attempt keeps its id, but its
	// directory gets another name when another attempt takes its place.
	attemptsDir = "attempts"
)

// runRecord is run.json.
type runRecord struct {
	Generation int    `json:"generation"`
	ID         string `json:"run_id"` // the id of the attempt
	// Start is when the attempt began.
	Start time.Time `json:"start_utc"`
	// Resumed is the archive from which the attempt began, relative to the directory of the runs, or "".
	Resumed string `json:"resumed,omitempty"`
	// Settings is the hash of the settings of the experiment that influence its course.
	Settings segno.Hash `json:"settings_hash,omitzero"`
	State    runState   `json:"state,omitempty"`
	// Rows are the attempt's rows in the chain. Until the attempt ends, they are those of its last checkpoint.
	Rows []Row `json:"rows,omitempty"`
}

// runState is how an attempt ended. "" means that it has not ended or that its runner was killed.
type runState string

const (
	runCompleted runState = "completed"
	runFailed    runState = "failed"
	runStopped   runState = "stopped" // by the user; another attempt may continue
)

// attemptID returns the id of an attempt: the name of its run and a number. All attempts of a generation share the
// name, because agents see it.
func attemptID(run string, n int) string { return fmt.Sprintf("%s-a%d", run, n) }

// attemptNumber returns the number in an attempt's id, or 0.
func attemptNumber(run, id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, run+"-a"))
	if err != nil {
		return 0
	}
	return n
}

// workspaceOut is the path of the workspace that an agent left in an attempt, relative to the directory of the runs.
func (r *Runner) workspaceOut(id, agent string) string {
	return strings.Join([]string{r.Experiment.Name, attemptsDir, id, "agents", agent, "workspace"}, "/")
}

// foundRun is a directory with the record of an attempt.
type foundRun struct {
	runRecord
	dir string
	end string // the suffix of the directory's name, such as "failed"; "" for the run in place
}

// runs returns the directories of all attempts of the experiment, oldest first. A directory without a readable record
// is not an attempt.
func (r *Runner) runs() (all []foundRun, err error) {
	found, err := filepath.Glob(filepath.Join(globQuote(r.Out), r.Experiment.Name+"-g[0-9][0-9][0-9]*"))
	for _, dir := range found {
		run := foundRun{dir: dir}
		base := filepath.Base(dir)
		if parts := earlierName().FindStringSubmatch(base); parts != nil {
			run.end, base = parts[1], strings.TrimSuffix(base, parts[0])
		}
		if known, err := readJSON(dir, runFile, &run.runRecord); err == nil && known && base == r.runID(run.Generation) {
			all = append(all, run)
		}
	}
	slices.SortStableFunc(all, func(a, b foundRun) int { return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.dir, b.dir)) })
	return all, err
}

// status returns how the attempt of a run ended, or "" if it is in progress or may continue.
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

// updateChain updates the chain and the symlinks of the attempts to match the directories of the runs. It is
// idempotent, so the next runner completes the work of a killed runner. Rows of runs whose directories no longer exist
// stay.
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

// attemptRows are the rows of a chain, grouped by attempt.
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

// upgradeRun gives an id to a run that an earlier version of segno recorded. The rows of such a version have the start
// time of the run.
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

// linkAttempt makes the symlink of an attempt point to a directory. Before that, the symlink points to an earlier
// directory or to none.
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
