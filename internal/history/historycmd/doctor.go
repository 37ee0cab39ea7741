package historycmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/hook"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/transcript/claude"
)

func (a *app) doctor() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "check that recording works, and show recent failures", Args: cobra.NoArgs,
		Long: `Runs the hook command in the agent's settings with a synthetic event, and checks its
answer. Shows the agents that are enabled, the store, open turns and recent failures of
hooks, and reads the attached databases. It fails if the store cannot be read, if the
directory or a database cannot be recorded, or if a session of the last day was not recorded. 'segno
chat' and 'segno acp' need no hooks: doctor succeeds without hooks if the store has
threads of theirs.`,
		Example: "  segno doctor\n  segno doctor --json",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runDoctor(c.Context()) },
	}
}

type doctorResult struct {
	Store    string          `json:"store"`
	Exists   bool            `json:"exists"`
	StoreErr string          `json:"store_error,omitempty"`
	Sealed   *local.Sealed   `json:"sealed,omitempty"`
	Agent    string          `json:"agent"` // the path of claude, or ""; Agents has those that are enabled
	Agents   []agentProgram  `json:"agents"`
	Dir      string          `json:"dir"`
	Root     string          `json:"root,omitempty"`      // the directory that a session in dir records
	DirErr   string          `json:"dir_error,omitempty"` // why segno records nothing there
	Hooks    []hook.Probe    `json:"hooks"`
	Others   []string        `json:"others"` // the agents that record turns without hooks
	Open     []openItem      `json:"open"`
	Failed   []string        `json:"failed"` // files of turns that could not be recorded
	Failures []event.Failure `json:"failures"`
	// Unrecorded are sessions of the last day whose turns were not recorded.
	Unrecorded []spool.Unrecorded `json:"unrecorded"`
	// Databases are the attached databases of the directory.
	Databases []cli.AttachedItem `json:"databases,omitempty"`
	// WithoutTurn are sessions in the directory whose agent has hooks but did not run them.
	WithoutTurn []unrecordedItem `json:"without_turn"`
	Healthy     bool             `json:"healthy"`

	storeHint string // the hint for StoreErr
	inUse     string // the agent to enable, if none is
}

// agentProgram is an agent that is enabled, and the path of its program, or "" if it is not on PATH.
type agentProgram struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

func (a *app) runDoctor(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	place, dir, err := a.PlaceAndDir()
	if err != nil {
		return err
	}
	res := doctorResult{Store: place.Store, Exists: place.Exists(), Dir: dir, inUse: place.AgentInUse(ctx), Agents: []agentProgram{}, Others: []string{}, Open: []openItem{},
		Failed: []string{}, Failures: []event.Failure{}, Unrecorded: []spool.Unrecorded{}, WithoutTurn: []unrecordedItem{}}
	res.Agent, _ = exec.LookPath(claude.Agent) // an agent that is not installed is a result
	res.Sealed, _ = place.Sealed()             // an error also prevents the store from being opened
	if store, err := a.OpenStore(ctx); err != nil {
		res.setStoreError(err)
	} else if err := res.readStore(ctx, store); err != nil {
		res.setStoreError(err)
	}
	fires := res.probeHooks(ctx, place, a.Environ())
	res.Others = slices.DeleteFunc(res.Others, res.hasHooks)
	res.readSpool(ctx, place)
	isUnread := func(at cli.AttachedItem) bool { return at.Unread != "" }
	res.Healthy = res.recordsTurns(fires) && !slices.ContainsFunc(res.Databases, isUnread)
	if err := a.Print(res, func(p *cli.Printer) { a.writeDoctor(p, res) }); err != nil {
		return err
	}
	if res.recordsTurns(fires) && !res.Healthy {
		return segno.Errorf(segno.KindRefused, "doctor", "", "an attached database is not saved").WithHint("make it readable, or run 'segno world detach'")
	}
	if !res.Healthy {
		return segno.Errorf(segno.KindRefused, "doctor", "", "turns are not being recorded").WithHint(res.hint(fires))
	}
	return nil
}

func (r *doctorResult) setStoreError(err error) {
	r.StoreErr = err.Error()
	if kind := segno.KindOf(err); kind == segno.KindRefused || kind == segno.KindNotFound {
		r.storeHint = segno.HintOf(err)
	}
}

// probeHooks runs the hooks of each agent in the settings of the user and of the project. It returns true if an agent
// has hooks, and if for each agent with hooks at least one of its files has hooks that answered. If no agent has hooks,
// it adds the settings file of the agent in use to the result.
func (r *doctorResult) probeHooks(ctx context.Context, place local.Place, environ []string) (fires bool) {
	var missing []hook.Probe
	silent := 0 // agents with hooks that do not run
	for _, agent := range agents.WithHooks() {
		isInstalled, isFiring := false, false
		for _, project := range []string{"", r.Dir} {
			file, _ := hook.SettingsFile(place, agent, project) // the list has no unknown agent
			p := hook.ProbeHooks(ctx, place, agent, file, r.Dir, environ)
			if p.Command == nil && p.Error == "" {
				if agent == r.inUse {
					missing = append(missing, p)
				}
				continue
			}
			isInstalled, isFiring = true, isFiring || p.Fires
			r.Hooks = append(r.Hooks, p)
		}
		if isInstalled {
			program, _ := exec.LookPath(agent)
			r.Agents = append(r.Agents, agentProgram{agent, program})
		}
		if isInstalled && !isFiring {
			silent++
		}
	}
	if fires = len(r.Hooks) > 0 && silent == 0; len(r.Hooks) == 0 {
		r.Hooks = missing[:1]
	}
	return fires
}

// recordsTurns reports whether anything records turns: hooks, or an agent that needs none.
func (r *doctorResult) recordsTurns(fires bool) bool {
	isInstalled := func(p hook.Probe) bool { return p.Command != nil || p.Error != "" }
	hasAgent := fires || len(r.Others) > 0 && !slices.ContainsFunc(r.Hooks, isInstalled)
	return hasAgent && r.StoreErr == "" && r.DirErr == "" && len(r.Unrecorded) == 0 && len(r.WithoutTurn) == 0
}

func (r *doctorResult) hasHooks(agent string) bool {
	return slices.ContainsFunc(r.Hooks, func(p hook.Probe) bool { return p.Agent == agent && p.Command != nil })
}

// readDatabases tries to save each database that is attached to the directory.
func (r *doctorResult) readDatabases(ctx context.Context, store *local.Store) error {
	rec, err := store.Find(ctx, r.Dir)
	if segno.KindOf(err) == segno.KindNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	all, err := store.Databases(rec.ID)
	for _, at := range all {
		item := cli.NewAttachedItem(rec.Path, at)
		if err := store.TryDatabase(ctx, "save database", rec, at); err != nil {
			item.Unread, item.Hint = cli.ReasonOf(err), segno.HintOf(err)
		}
		r.Databases = append(r.Databases, item)
	}
	return err
}

// readStore reads the root of the directory, its databases, the agents that record turns without hooks, and the questions that
// wait, and closes the store.
func (r *doctorResult) readStore(ctx context.Context, store *local.Store) (err error) {
	if r.Root, err = store.Root(ctx, r.Dir); err != nil {
		r.DirErr, err = err.Error(), nil
	}
	if r.DirErr == "" && r.Root != "" {
		if r.WithoutTurn, err = findUnrecorded(ctx, store, r.Root); err != nil {
			return errors.Join(err, store.Close())
		}
	}
	err = r.readAgents(ctx, store)
	for _, inboxErr := range threadFinder(store).Inbox(ctx, "") {
		err = cmp.Or(err, inboxErr)
	}
	switch {
	case err == nil && store.Full():
		err = segno.NewError(segno.KindIO, "write store", r.Store, syscall.ENOSPC)
	case err == nil && store.ReadOnly():
		err = errors.New("it is read-only")
	case err == nil:
		err = r.readDatabases(ctx, store)
	}
	return errors.Join(err, store.Close())
}

// readAgents reads the agents with turns that segno recorded without hooks.
func (r *doctorResult) readAgents(ctx context.Context, store *local.Store) error {
	for t, err := range store.Threads(ctx, segno.ThreadQuery{TopLevel: true}) {
		if err != nil {
			return err
		}
		if t.Agent == "" || slices.Contains(r.Others, t.Agent) {
			continue
		}
		if agent, _ := agents.Of(t.Agent); agent.Hooks != nil {
			head, err := store.Head(ctx, t.ID)
			if err != nil {
				return err
			}
			if head.Epoch == 0 { // hooks record turns without a lease, and the proxy with one
				continue
			}
		}
		r.Others = append(r.Others, t.Agent)
	}
	slices.Sort(r.Others)
	return nil
}

// readSpool reads the files of hooks beside the store. It leaves out a file that it cannot read.
func (r *doctorResult) readSpool(ctx context.Context, place local.Place) {
	dir := place.Spool()
	turns, _ := dir.Turns(ctx)
	for _, t := range turns {
		r.Open = append(r.Open, newOpenItem(t))
	}
	failed, _ := dir.Failed()
	r.Failed = append(r.Failed, failed...)
	failures, _ := (event.Log{Store: place.Store}).Failures(10)
	r.Failures = append(r.Failures, failures...)
	const recent = 24 * time.Hour
	sessions, _ := dir.Unrecorded(ctx, place.Now().Add(-recent))
	r.Unrecorded = append(r.Unrecorded, sessions...)
}

// hint returns the first step to fix the problem that keeps segno from recording turns.
func (r *doctorResult) hint(fires bool) string {
	switch {
	case r.StoreErr != "":
		return cmp.Or(r.storeHint, "repair the store, or name another with --store")
	case !fires:
		for _, h := range r.Hooks {
			if len(h.Review) > 0 {
				return "start codex and trust segno's hooks when it asks, or type /hooks there; segno does not do it for you"
			}
			if h.IsOff {
				return "turn on the hooks in the settings of " + h.Agent
			}
			if h.Error != "" {
				return "run 'segno enable " + h.Agent + "'"
			}
		}
		return "run 'segno enable " + r.inUse + "'"
	case r.DirErr != "":
		return "start the agent in a project's own directory"
	}
	if len(r.WithoutTurn) > 0 && len(r.Unrecorded) == 0 {
		return "start those sessions again: an agent reads its hooks when it starts"
	}
	return "start those sessions again where segno can record them"
}

// The results of a check.
const (
	checkOK      = "ok:"
	checkWarning = "warning:"
	checkError   = "error:"
)

// checkf writes the line of one check.
func checkf(p *cli.Printer, result, format string, args ...any) {
	colour := p.Gone
	if result == checkOK {
		colour = p.Added
	}
	p.Linef("%s %s", colour(result), fmt.Sprintf(format, args...))
}

func (a *app) writeDoctor(p *cli.Printer, r doctorResult) {
	if r.StoreErr == "" {
		checkf(p, checkOK, "store %s", cli.Inline(r.Store))
	} else {
		checkf(p, checkError, "store %s: %s", cli.Inline(r.Store), cli.Inline(r.StoreErr))
	}
	if r.Sealed != nil {
		checkf(p, checkOK, "the store is sealed; its key is in %s", cli.Inline(r.Sealed.KeyFile))
	}
	if r.Sealed != nil && r.Sealed.Exposed {
		checkf(p, checkWarning, "other users can read the key file %s; run 'chmod 600' on it", cli.Inline(r.Sealed.KeyFile))
	}
	switch {
	case r.DirErr != "":
		checkf(p, checkError, "%s is not recorded: %s", cli.Inline(r.Dir), cli.Inline(r.DirErr))
	case r.Root != "" && r.Root != r.Dir:
		checkf(p, checkOK, "%s is recorded as part of %s", cli.Inline(r.Dir), cli.Inline(r.Root))
	case r.Root != "":
		checkf(p, checkOK, "%s is recorded", cli.Inline(r.Dir))
	}
	for _, agent := range r.Agents {
		if agent.Path == "" {
			checkf(p, checkWarning, "%s is enabled, and not found on PATH", agent.Name)
		} else {
			checkf(p, checkOK, "%s is enabled: %s", agent.Name, cli.Inline(agent.Path))
		}
	}
	for _, h := range r.Hooks {
		writeProbe(p, h, r.Healthy)
	}
	for _, agent := range r.Others {
		checkf(p, checkOK, "the store has turns of %s that needed no hooks", cli.Clean(agent))
	}
	for _, at := range r.Databases {
		if at.Unread == "" {
			checkf(p, checkOK, "database %s can be saved", cli.QuotePath(at.Name))
		} else {
			checkf(p, checkError, "database %s is not saved: %s; %s", cli.QuotePath(at.Name), cli.Inline(at.Unread), cli.Inline(at.Hint))
		}
	}
	for _, u := range r.Unrecorded {
		checkf(p, checkError, "session %s of %s in %s was not recorded: %s",
			cli.Clean(string(u.Session)), a.When(u.Time), cli.Inline(u.Dir), cli.Inline(u.Why))
	}
	for _, u := range r.WithoutTurn {
		checkf(p, checkError, "%s", u.text())
	}
	for _, t := range r.Open {
		checkf(p, checkOK, "open turn of %s, session %s, pid %d, since %s", cli.Clean(t.Agent), cli.Clean(string(t.Session)), t.PID, a.When(t.start))
	}
	for _, f := range r.Failed {
		checkf(p, checkError, "a turn could not be recorded and is kept in %s", cli.Inline(f))
	}
	for _, f := range r.Failures {
		checkf(p, checkWarning, "hook failure at %s: %s: %s", a.When(f.Time), cli.Clean(f.Event), cli.Clean(f.Error))
	}
}

// writeProbe writes the check of the hooks in one settings file. Missing hooks are only a warning
// if turns are recorded without them.
func writeProbe(p *cli.Printer, h hook.Probe, isHealthy bool) {
	switch {
	case h.Fires:
		checkf(p, checkOK, "hooks in %s: %s answered a synthetic event", cli.Inline(h.File), cli.CommandLine(h.Command))
	case h.Command != nil:
		checkf(p, checkError, "hooks in %s: %s", cli.Inline(h.File), cli.Inline(h.Error))
	case h.Error != "":
		checkf(p, checkError, "no hooks of segno in %s: %s", cli.Inline(h.File), cli.Inline(h.Error))
	case isHealthy:
		checkf(p, checkWarning, "no hooks of segno in %s: turns of %s are not recorded", cli.Inline(h.File), cli.Clean(h.Agent))
	default:
		checkf(p, checkError, "no hooks of segno in %s", cli.Inline(h.File))
	}
	if h.IsOther {
		checkf(p, checkWarning, "%s is not the plugin of this version of segno: 'segno enable %s' replaces it", cli.Inline(h.File), cli.Clean(h.Agent))
	}
	if len(h.Missing) > 0 && h.Command != nil {
		checkf(p, checkWarning, "no hooks for %s", strings.Join(h.Missing, ", "))
	}
}
