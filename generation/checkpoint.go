package generation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

const (
	checkpointsDir = "checkpoints"
	partSuffix     = ".part" // of an archive that is not in place
)

// consistency describes how the parts of a checkpoint belong together in time.
type consistency string

const (
	quiet  consistency = archive.Quiet   // no agent had a turn
	frozen consistency = archive.Barrier // the agents with a turn were stopped for the moment
)

// caller contains the runner's additions to the metadata of an archive.
type caller struct {
	Experiment     string            `json:"experiment"`
	Generation     int               `json:"generation"`
	ElapsedSeconds float64           `json:"elapsed_seconds"`
	ElapsedTicks   int               `json:"elapsed_ticks"`
	Run            string            `json:"run_id"`
	World          string            `json:"world"`
	AgentsPerWorld int               `json:"agents_per_world"`
	Port           int               `json:"world_port"`
	Tickets        map[string]string `json:"world_sessions"`
	// Turns counts the complete turns of the generation, by agent. Files are by agent, too.
	Turns map[string]int        `json:"agent_turns"`
	Files map[string]savedFiles `json:"agent_files,omitempty"`
	// WhyNot is why the attempt is not reproducible, or "".
	WhyNot   string     `json:"why_not_reproducible,omitempty"`
	Settings segno.Hash `json:"settings_hash,omitzero"` // of the experiment
	// Checkpoint is the checkpoint in the store that the archive contains.
	Checkpoint segno.CommitID `json:"checkpoint,omitempty"`
}

// checkpoint saves the present moment. If that fails, checkpoint counts and reports the failure, and the
// generation continues. It returns an error only if the world died, because the generation then cannot continue. isLast
// is set for the last checkpoint of the attempt.
func (a *attempt) checkpoint(ctx context.Context, c consistency, isLast bool) error {
	a.last = a.Now()
	if _, isPausing := a.pauseRequested(); a.Every == 0 && !isPausing {
		return nil
	}
	a.cutErr = a.save(ctx, c, isLast)
	if a.cutErr != nil {
		if _, err := a.world.Snapshot(ctx); err != nil {
			return err
		}
		a.status.CheckpointFailures++
		a.status.LastFailure = a.cutErr.Error()
		a.event(Event{Kind: EventNoCheckpoint, Generation: a.generation, Run: a.id, Tick: a.ticks, Error: a.cutErr.Error()})
	} else {
		a.status.Checkpoints++
		a.status.Ticks = a.ticks
	}
	a.setState(StateRunning, "")
	return nil
}

// save records the moment in the store and writes its archive.
func (a *attempt) save(ctx context.Context, c consistency, isLast bool) error {
	elapsed := a.elapsed()
	if c == quiet {
		a.sweep()
	}
	before, err := a.world.Snapshot(ctx)
	if err != nil {
		return err
	}
	a.observeOn(before)
	members := map[string]segno.CommitID{}
	for _, m := range a.agents {
		cp, err := a.saveAgent(ctx, m)
		if err != nil {
			return fmt.Errorf("save agent %s: %w", m.Name, err)
		}
		members[m.Name] = cp.ID
	}
	cp, err := a.timelineOfRun().SaveWorld(ctx, timeline.WorldSave{Thread: a.thread, Title: a.id, World: a.world, Members: members,
		Label: a.label(), Meta: map[string]string{"run": a.id, "generation": strconv.Itoa(a.generation), "ticks": strconv.Itoa(a.ticks)}})
	if err != nil {
		return err
	}
	a.thread = cp.Thread
	after, err := a.world.Snapshot(ctx)
	if err != nil {
		return err
	}
	cut := archive.Cut{Consistency: string(c), WorldSeq: []uint64{before.Seq, after.Seq}, ElapsedSeconds: int64(elapsed / time.Second), Generation: a.generation}
	if before.Seq != after.Seq && a.world.Info().Tick > 0 { // a process that left its agent's group acted meanwhile
		cut.Consistency = archive.Crash
	}
	path, digest, err := a.write(ctx, cp.ID, cut, elapsed, isLast)
	if err != nil {
		return err
	}
	a.from = digest
	if err := a.point(path, digest, a.generation, a.ticks, elapsed); err != nil {
		return err
	}
	a.saved++
	if err := a.record(""); err != nil {
		return err
	}
	a.event(Event{Kind: EventCheckpoint, Generation: a.generation, Run: a.id, Tick: a.ticks, SimTime: a.status.SimTime, Path: path, Digest: digest})
	return a.retain()
}

func (a *attempt) label() string { return fmt.Sprintf("%s tick %d", a.id, a.ticks) }

// timelineOfRun returns a timeline for the thread of the run, which has no workspace.
func (a *attempt) timelineOfRun() *timeline.Timeline {
	return timeline.Open(timeline.Config{Store: a.Store, Now: a.Now})
}

// saveAgent makes a checkpoint of the files and the conversation of an agent, and one of its home.
func (a *attempt) saveAgent(ctx context.Context, m *member) (*segno.Checkpoint, error) {
	t, src, err := m.kind.Session(ctx, m.Place)
	if err != nil {
		return nil, err
	}
	cp, err := m.timeline.SaveAgent(ctx, timeline.AgentSave{Label: a.label(), Transcript: t, Source: src})
	if err != nil {
		return nil, err
	}
	m.saved.Workspace = cp.ID
	m.saved.Home, err = a.saveHome(ctx, m, src.Path)
	return cp, err
}

// archiveName returns the name of an archive. Its number counts ticks if the generation is limited in ticks, else
// seconds.
func (a *attempt) archiveName(elapsed time.Duration) string {
	t := int(elapsed / time.Second)
	if a.Experiment.Ticks > 0 {
		t = a.ticks
	}
	return fmt.Sprintf("gen%03d-t%06d.ckpt", a.generation, t)
}

// write packs a checkpoint from the store. Between the first and the last archive of an attempt, the archives are
// deltas, so that their cost depends on the change.
func (a *attempt) write(ctx context.Context, at segno.CommitID, cut archive.Cut, elapsed time.Duration, isLast bool) (path, digest string, err error) {
	p := &pack.Packer{Store: a.Store, Temp: a.Temp, FS: a.FS}
	state, cleanup, err := p.State(ctx, at, pack.Options{})
	defer func() { err = errors.Join(err, cleanup()) }()
	if err != nil {
		return "", "", err
	}
	state.Cut = &cut
	name, err := a.describe(&state, at, elapsed)
	if err != nil {
		return "", "", err
	}
	dir := filepath.Join(a.dir, checkpointsDir)
	if err := vfs.MkdirAllSynced(a.FS, dir); err != nil {
		return "", "", err
	}
	path = filepath.Join(dir, name)
	since := a.since(name, isLast)
	m, err := a.replaceArchive(ctx, path, state, since)
	if err == nil {
		err = a.wrote(path, m, since)
	}
	if err != nil {
		return "", "", err
	}
	a.reportOmitted(m, path)
	return path, m.Digest, nil
}

// writeOptions returns the options of an archive.
func (r *Runner) writeOptions(since *archive.Base) archive.WriteOptions {
	o := r.Write
	o.FS, o.OmitSession, o.OmitFiles, o.Since = r.FS, true, true, since
	return o
}

// replaceArchive writes an archive. One of this tick may exist, without the turns that are in progress now.
func (r *Runner) replaceArchive(ctx context.Context, path string, state archive.State, since *archive.Base) (*archive.Manifest, error) {
	part := path + partSuffix
	m, err := archive.Write(ctx, part, state, r.writeOptions(since))
	if err != nil {
		return nil, describeSecret(err)
	}
	if err = r.FS.Rename(part, path); err == nil {
		err = r.FS.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(part))
	}
	return m, nil
}

// describe adds the metadata to the state of an archive, and returns the archive's name.
func (a *attempt) describe(state *archive.State, at segno.CommitID, elapsed time.Duration) (name string, err error) {
	about := caller{Experiment: a.Experiment.Name, Generation: a.generation, ElapsedSeconds: elapsed.Seconds(), ElapsedTicks: a.ticks, Run: a.id,
		World: a.world.Info().Name, AgentsPerWorld: len(a.agents), Port: a.world.Port(), Tickets: map[string]string{}, Turns: map[string]int{},
		Files: map[string]savedFiles{}, WhyNot: a.whyNotReproducible(), Settings: a.Experiment.settings(), Checkpoint: at}
	for _, m := range a.agents {
		m.mu.Lock()
		about.Tickets[m.Name], about.Turns[m.Name], about.Files[m.Name] = m.Ticket, m.turns, m.saved
		m.mu.Unlock()
	}
	if state.Caller, err = asMap(about); err != nil {
		return "", err
	}
	name = a.archiveName(elapsed)
	parent := a.from
	if old := readSaved(filepath.Join(a.dir, checkpointsDir, name)); old.Digest == parent {
		parent = old.Parent // the archive of the same tick or second, which this one replaces
	}
	if parent != "" {
		state.Parent = &archive.ParentInfo{Digest: parent, Kind: "lineage"}
	}
	return name, nil
}

// describeSecret returns an error that names the files in which the scan found secrets.
func describeSecret(err error) error {
	var found *archive.CheckpointSecretError
	if !errors.As(err, &found) {
		return err
	}
	var files []string
	for _, f := range found.Findings {
		files = append(files, f.Path)
	}
	slices.Sort(files)
	return segno.Errorf(segno.KindRefused, "write checkpoint", "", "the scan found a secret in %s", strings.Join(slices.Compact(files), ", ")).
		WithHint("remove it from the file; the store has the checkpoint")
}

// point writes the path of an archive into checkpoint.json.
func (r *Runner) point(path, digest string, generation, ticks int, elapsed time.Duration) error {
	rel, err := filepath.Rel(r.dir, path)
	if err != nil {
		return err
	}
	return r.writeJSON(pointerFile, Pointer{Checkpoint: filepath.ToSlash(rel), Digest: digest, Generation: generation,
		ElapsedSeconds: int64(elapsed / time.Second), ElapsedTicks: ticks, Written: r.Now().UTC()})
}

var archiveNames = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^gen([0-9]{3})-t([0-9]{6,})\.ckpt$`) })

// archivesIn returns the archives of a run, oldest first: by number, because one over 999999 has more digits.
func archivesIn(runDir string) (paths []string) {
	entries, _ := os.ReadDir(filepath.Join(runDir, checkpointsDir)) // none if there is no such directory
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !archiveNames().MatchString(e.Name()) })
	slices.SortFunc(entries, func(a, b os.DirEntry) int {
		return cmp.Or(len(a.Name())-len(b.Name()), strings.Compare(a.Name(), b.Name()))
	})
	for _, e := range entries {
		paths = append(paths, filepath.Join(runDir, checkpointsDir, e.Name()))
	}
	return paths
}

// retain removes all archives except the newest ones, the last one of each generation, and those of which they are
// deltas. Directories of failed runs keep all their archives.
func (a *attempt) retain() error {
	var removable []string
	needed := map[string]bool{}
	kept := a.Keep
	for g := a.generation; g >= 1; g-- {
		all := archivesIn(a.runDir(g))
		if len(all) == 0 {
			continue
		}
		keep := min(max(kept, 1), len(all))
		kept -= keep
		removable = append(removable, all[:len(all)-keep]...)
		for _, path := range all[len(all)-keep:] {
			needed[a.baseOf(path)] = true
		}
	}
	for _, path := range removable {
		if needed[path] {
			continue
		}
		if err := a.FS.Remove(path); err != nil {
			return segno.NewError(segno.KindIO, "remove checkpoint", path, err)
		}
	}
	return nil
}
