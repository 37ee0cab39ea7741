package generation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/dalsegno/segno/transcript/filelog"
	"github.com/dalsegno/segno/world"
)

// savedRun is an open and verified archive to resume from.
type savedRun struct {
	*archive.Reader
	base   *archive.Reader // of a delta, or nil
	path   string
	caller caller
}

// openSaved opens and verifies an archive. It first replaces a delta whose base is lost or damaged by a full archive, if
// the store has the checkpoint.
func (r *Runner) openSaved(ctx context.Context, path string) (*savedRun, error) {
	s, err := openVerified(ctx, path)
	if err != nil {
		if r.rebuild(ctx, path) == nil {
			s, err = openVerified(ctx, path)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.checkSaved(s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func openVerified(ctx context.Context, path string) (*savedRun, error) {
	s, err := openArchive(path)
	if err != nil {
		return nil, err
	}
	if err := s.Verify(ctx, nil); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// readCaller reads the runner's additions to the metadata.
func (s *savedRun) readCaller() error {
	data, err := json.Marshal(s.Metadata().Caller)
	if err == nil {
		err = json.Unmarshal(data, &s.caller)
	}
	return err
}

// checkSaved returns an error if the experiment cannot continue an archive.
func (r *Runner) checkSaved(s *savedRun) error {
	const op = "resume experiment"
	err := s.readCaller()
	c, m := s.caller, s.Manifest()
	switch {
	case err != nil, c.Generation < 1, m.World == nil:
		return segno.Errorf(segno.KindInvalid, op, s.path, "it is not a checkpoint of an experiment")
	case c.Experiment != r.Experiment.Name:
		return segno.Errorf(segno.KindRefused, op, s.path, "it belongs to the experiment %q", c.Experiment)
	case c.Generation > r.Experiment.Generations:
		return segno.Errorf(segno.KindRefused, op, s.path, "the experiment has no generation %d", c.Generation)
	case !r.Trust && !r.Ours(m.Digest):
		return segno.Errorf(segno.KindRefused, op, s.path, "it was not written on this machine").
			WithHint("use --trust-session if you know its author")
	}
	var names []string
	for _, a := range r.Experiment.Agents {
		names = append(names, a.Name)
	}
	for _, info := range m.Agents {
		if !slices.Contains(names, info.Name) {
			return segno.Errorf(segno.KindRefused, op, s.path, "the experiment has no agent %q", info.Name)
		}
	}
	if len(m.Agents) != len(names) {
		return segno.Errorf(segno.KindRefused, op, s.path, "it has %d agents and the experiment %d", len(m.Agents), len(names))
	}
	return nil
}

// setAside renames the runs of a checkpoint's generation and of later ones, because the user goes back to
// that checkpoint. The checkpoint may be in one of these runs. Runs also exist above the number of generations, if the
// user has lowered it.
func (r *Runner) setAside(s *savedRun) error {
	for g := maxGenerations; g >= s.caller.Generation; g-- {
		from := r.runDir(g)
		to, err := r.putAway(g, "replaced")
		if err != nil {
			return err
		}
		if rel, err := filepath.Rel(from, s.path); err == nil && filepath.IsLocal(rel) && to != "" {
			s.path = filepath.Join(to, rel)
		}
	}
	return r.updateChain()
}

// putAway renames the directory of a run that will not continue, and updates the pointer. It
// returns the new name, or "" if there is no directory.
func (r *Runner) putAway(g int, why string) (string, error) {
	dir := r.runDir(g)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err := r.removeTemporary(dir); err != nil {
		return "", err
	}
	to := fmt.Sprintf("%s.%s-%s", dir, why, r.nextStamp(g))
	err := r.FS.Rename(dir, to)
	if err == nil {
		err = r.FS.SyncDir(r.Out)
	}
	if err == nil {
		err = r.movePointer(dir, to)
	}
	if err != nil {
		return "", segno.NewError(segno.KindIO, "rename run", dir, err)
	}
	return to, nil
}

// earlierName matches the end of the name of a run that is no longer in place. The stamp is the time when it was
// renamed.
var earlierName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.([a-z]+)-([0-9]{8}T[0-9]{6}Z(?:-[0-9]{3,})?)$`) })

// nextStamp returns a stamp later than those of all earlier runs of a generation, even if the clock was set back.
func (r *Runner) nextStamp(g int) string {
	const format = "20060102T150405Z"
	newest := ""
	found, _ := filepath.Glob(globQuote(r.runDir(g)) + ".*") // the pattern is well-formed
	for _, run := range found {
		if parts := earlierName().FindStringSubmatch(run); parts != nil {
			newest = max(newest, parts[2])
		}
	}
	if now := r.Now().UTC().Format(format); now > newest {
		return now
	}
	n, _ := strconv.Atoi(strings.TrimPrefix(newest[len(format):], "-")) // 0 if there is no number
	return fmt.Sprintf("%s-%03d", newest[:len(format)], max(n, 1)+1)
}

// removeTemporary removes the archives that a killed runner did not complete.
func (r *Runner) removeTemporary(runDir string) error {
	dir := globQuote(filepath.Join(runDir, checkpointsDir))
	stray, _ := filepath.Glob(dir + "/.segno-*") // the patterns are well-formed
	parts, _ := filepath.Glob(dir + "/*" + partSuffix)
	for _, path := range append(stray, parts...) {
		if err := r.FS.Remove(path); err != nil {
			return segno.NewError(segno.KindIO, "remove temporary file", path, err)
		}
	}
	return nil
}

// movePointer updates the pointer for a directory that was renamed.
func (r *Runner) movePointer(from, to string) error {
	var p Pointer
	if known, err := readJSON(r.dir, pointerFile, &p); err != nil || !known {
		return nil // the pointer is only for people; a resume reads the archives
	}
	rel, err := filepath.Rel(from, filepath.Join(r.dir, filepath.FromSlash(p.Checkpoint)))
	if err != nil || !filepath.IsLocal(rel) {
		return nil // it points elsewhere
	}
	if rel, err = filepath.Rel(r.dir, filepath.Join(to, rel)); err != nil {
		return err
	}
	p.Checkpoint = filepath.ToSlash(rel)
	return r.writeJSON(pointerFile, p)
}

// next returns the current generation of the experiment. It is the generation of the last run in place, or the one
// after it if that is complete.
func (r *Runner) next() (int, error) {
	runs, err := r.runs()
	newest, complete := 1, false
	for _, run := range runs {
		if run.end == "" && run.Generation >= newest && run.Generation <= r.Experiment.Generations {
			newest, complete = run.Generation, run.State == runCompleted
		}
	}
	if complete {
		newest++
	}
	return newest, err
}

// prepare creates the directory of a run from a checkpoint or from the templates.
func (r *Runner) prepare(ctx context.Context, g int, from *savedRun) (*attempt, error) {
	a := &attempt{Runner: r, generation: g, id: r.runID(g), dir: r.runDir(g), start: r.Now().UTC().Truncate(time.Millisecond)}
	if err := r.putEarlierAway(g, a.id); err != nil {
		return nil, err
	}
	rows, err := readChain(r.dir)
	if err != nil {
		return nil, err
	}
	runs, err := r.runs()
	if err != nil {
		return nil, err
	}
	a.own = r.nextAttempt(g, rows, runs)
	if from == nil && !r.NoAutoResume {
		if from, err = r.newest(ctx, g); err != nil {
			return nil, err
		}
	}
	if from == nil {
		err = a.begin(rows, runs)
	} else {
		defer from.Close()
		if a.resumed, err = filepath.Rel(r.Out, from.path); err == nil {
			err = a.load(ctx, from)
		}
	}
	if err == nil {
		err = a.record("")
	}
	if err == nil {
		err = r.linkAttempt(a.own, a.dir)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// The ends of the names of runs that continue in another directory.
const (
	endFailed = "failed"
	endPaused = "paused"
)

// putEarlierAway renames the directory of a run that failed or was paused.
func (r *Runner) putEarlierAway(g int, id string) error {
	end := endFailed
	if id == r.paused {
		end = endPaused
	}
	r.paused = "" // if this try fails, it counts as a failure
	to, err := r.putAway(g, end)
	err = errors.Join(err, r.updateChain())
	if to != "" && end == endFailed {
		r.event(Event{Kind: EventFailed, Generation: g, Run: id, Path: to, Text: "its directory is kept"})
	}
	return err
}

// earlierRuns returns the directories of a generation's runs that failed or were paused, oldest first.
func (r *Runner) earlierRuns(g int) (runs []string) {
	stamp := map[string]string{}
	found, _ := filepath.Glob(globQuote(r.runDir(g)) + ".*") // the pattern is well-formed
	for _, run := range found {
		if parts := earlierName().FindStringSubmatch(run); parts != nil && (parts[1] == endFailed || parts[1] == endPaused) {
			stamp[run] = parts[2]
			runs = append(runs, run)
		}
	}
	slices.SortFunc(runs, func(a, b string) int { return strings.Compare(stamp[a], stamp[b]) })
	return runs
}

// newest returns the newest checkpoint of a generation that verifies, or nil. It begins in the run that
// failed or was paused last, and goes back only along the checkpoints that each run began with. The user may
// have left other runs on purpose.
//
// If a checkpoint is sound but the experiment cannot continue it, newest returns an error, so that the user decides
// whether the generation begins again.
func (r *Runner) newest(ctx context.Context, g int) (*savedRun, error) {
	for _, run := range slices.Backward(r.earlierRuns(g)) {
		var record runRecord
		if began, err := readJSON(run, runFile, &record); err != nil || began {
			return r.newestFrom(ctx, g, run)
		}
		// Otherwise the runner was killed before the run began.
	}
	return nil, nil
}

// newestFrom is newest for a run and those before it.
func (r *Runner) newestFrom(ctx context.Context, g int, run string) (*savedRun, error) {
	candidates, seen := archivesIn(run), map[string]bool{}
	for !seen[run] {
		seen[run] = true
		for _, path := range slices.Backward(candidates) {
			s, err := r.openSaved(ctx, path)
			switch {
			case err == nil && s.caller.Generation == g:
				return s, nil
			case segno.KindOf(err) == segno.KindRefused:
				return nil, segno.NewError(segno.KindRefused, "", "", err).
					WithHint(cmp.Or(segno.HintOf(err), "repair the file of the experiment, or begin the generation again with --no-auto-resume"))
			case err == nil:
				err = errors.Join(segno.Errorf(segno.KindCorrupt, "resume experiment", path, "it is of another generation"), s.Close())
			}
			r.event(Event{Kind: EventBadCheckpoint, Generation: g, Path: path, Error: err.Error()})
		}
		var record runRecord
		if _, err := readJSON(run, runFile, &record); err != nil || record.Resumed == "" {
			return nil, nil
		}
		resumed := filepath.Join(r.Out, record.Resumed)
		run = filepath.Dir(filepath.Dir(resumed))
		candidates = archivesIn(run)
		if i := slices.Index(candidates, resumed); i >= 0 {
			candidates = candidates[:i+1]
		} else { // the user named a file elsewhere
			candidates = []string{resumed}
		}
	}
	return nil, nil
}

func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// begin creates the workspaces from the templates: the workspace that the same agent left in the previous generation, or
// the template of the experiment. Agents are the same if they have the same name, because the user may add, remove and
// reorder agents between two generations.
func (a *attempt) begin(rows []Row, runs []foundRun) error {
	before := completedRows(rows, a.generation-1)
	if a.generation > 1 && len(before) == 0 {
		return segno.Errorf(segno.KindCorrupt, "begin generation", a.id, "the generation before it is not in %s", chainFile)
	}
	if last := archivesIn(a.runDir(a.generation - 1)); len(before) > 0 && len(last) > 0 {
		a.from = readSaved(last[len(last)-1]).Digest // "" if it cannot be read
	}
	if len(before) > 0 {
		a.whyNot = before[0].WhyNot // the same for all agents
		if i := slices.IndexFunc(runs, func(f foundRun) bool { return f.ID == before[0].Run }); i >= 0 {
			a.continues(runs[i].Settings)
		}
	}
	for _, spec := range a.Experiment.Agents {
		template := a.Experiment.Template
		if i := slices.IndexFunc(before, func(r Row) bool { return r.Agent == spec.Name }); i >= 0 {
			template = filepath.Join(a.Out, before[i].WorkspaceOut)
		}
		if err := a.copyTemplate(spec.Name, template); err != nil {
			return segno.NewError(segno.KindIO, "copy template", template, err)
		}
	}
	return nil
}

func (a *attempt) copyTemplate(name, template string) error {
	if err := vfs.MkdirAllSynced(a.FS, a.agentDir(name)); err != nil {
		return err
	}
	to := filepath.Join(a.agentDir(name), "workspace")
	a.templates = append(a.templates, template)
	if template == "" {
		return os.Mkdir(to, 0o755)
	}
	if rel, err := filepath.Rel(a.Out, template); err == nil && filepath.IsLocal(rel) {
		a.templates[len(a.templates)-1] = filepath.ToSlash(rel)
	}
	return copyTree(template, to)
}

// load restores the run from a checkpoint.
func (a *attempt) load(ctx context.Context, from *savedRun) error {
	c := from.caller
	a.ticks, a.before, a.from = c.ElapsedTicks, time.Duration(c.ElapsedSeconds*float64(time.Second)), from.Manifest().Digest
	a.tickets, a.turns, a.port = c.Tickets, c.Turns, c.Port
	a.whyNot = c.WhyNot
	a.continues(c.Settings)
	if cut := from.Manifest().Cut; a.whyNot == "" && (cut == nil || cut.Consistency != archive.Quiet) {
		a.whyNot = "it or a generation before it began with a checkpoint within turns"
	}
	homes := a.dir + ".homes" // an unpacked directory has no homes, because they would be beside other files
	if err := os.RemoveAll(homes); err != nil {
		return err
	}
	done, err := pack.Unpack(ctx, from.Reader, pack.Into{Dir: a.dir, TrustSession: true, FS: a.FS, HomeOf: func(name, agent string) string {
		if agent == filelog.Agent {
			return filepath.Join(homes, name, conversationDir)
		}
		return pack.DefaultHome(agent, func(variable string) string {
			if variable == "HOME" {
				return filepath.Join(homes, name, "home")
			}
			return ""
		})
	}})
	if err == nil {
		err = a.moveHomes(homes)
	}
	if err == nil {
		a.restoreFiles(ctx, from)
		err = a.copyHomes(from)
	}
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(a.Out, from.path)
	if err != nil {
		return err
	}
	for range a.Experiment.Agents {
		a.templates = append(a.templates, "checkpoint:"+filepath.ToSlash(rel))
	}
	a.document, err = os.ReadFile(done.World)
	if err == nil { // an agent must not find it
		err = a.FS.Remove(done.World)
	}
	var header world.Header
	if err == nil {
		header, err = world.ReadHeader(a.document)
	}
	if err != nil {
		return err
	}
	a.now.time = header.Time // for the row, if the runner is killed before the world runs
	a.now.outcomes, _ = world.ReadOutcomes(a.document)
	return nil
}

// moveHomes moves the homes with the conversations to their agents, and the conversations beside them.
func (a *attempt) moveHomes(homes string) error {
	found, err := filepath.Glob(globQuote(homes) + "/*/*")
	for _, from := range found {
		if err == nil {
			agent := filepath.Base(filepath.Dir(from))
			err = a.FS.Rename(from, filepath.Join(a.agentDir(agent), filepath.Base(from)))
		}
	}
	if err == nil {
		err = os.RemoveAll(homes)
	}
	return err
}

// copyHomes completes the homes of a run that was paused on this machine. An archive contains only the conversations,
// while the directory of the paused run has all files as they were at its last checkpoint.
func (a *attempt) copyHomes(from *savedRun) error {
	run := filepath.Dir(filepath.Dir(from.path))
	var p Pointer
	known, err := readJSON(a.Runner.dir, pointerFile, &p)
	if !strings.HasPrefix(run, a.dir+"."+endPaused) || !known || p.Digest != from.Manifest().Digest {
		return err
	}
	for _, info := range from.Manifest().Agents {
		loaded := ""
		if len(from.Manifest().Tree(info.Name, archive.Session)) > 0 {
			loaded = info.SessionID
		}
		home := filepath.Join(run, "agents", info.Name, "home")
		if err := copyHome(home, filepath.Join(a.agentDir(info.Name), "home"), loaded); err != nil {
			return segno.NewError(segno.KindIO, "load home", home, err)
		}
	}
	return nil
}

// asMap converts v to the metadata of an archive.
func asMap(v any) (m map[string]any, err error) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	return m, err
}
