package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/event"
	"github.com/dalsegno/segno/internal/hook"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/transcript/claude"
)

func (a *app) doctor() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "check that recording works, and show recent failures", Args: cobra.NoArgs,
		Long: `Runs the hook command in the agent's settings with a synthetic event, and checks its
answer. Shows the store, open turns and recent failures of hooks. It fails if the
directory cannot be recorded, or if a session of the last day was not recorded. 'segno
chat' and 'segno acp' need no hooks: doctor succeeds without hooks if the store has
threads of theirs.`,
		Example: "  segno doctor\n  segno doctor --json",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runDoctor(c.Context()) },
	}
}

// doctorResult is the result of doctor.
type doctorResult struct {
	Store    string          `json:"store"`
	Exists   bool            `json:"exists"`
	StoreErr string          `json:"store_error,omitempty"`
	Agent    string          `json:"agent"` // where claude is, or ""
	Dir      string          `json:"dir"`
	Root     string          `json:"root,omitempty"`      // the directory that a session in dir records
	DirErr   string          `json:"dir_error,omitempty"` // why segno records nothing there
	Hooks    []hook.Probe    `json:"hooks"`
	Others   []string        `json:"others"` // whose turns are here without hooks
	Open     []openItem      `json:"open"`
	Failed   []string        `json:"failed"` // files of turns that could not be recorded
	Failures []event.Failure `json:"failures"`
	// Unrecorded are sessions of the last day whose turns were not recorded.
	Unrecorded []unrecorded `json:"unrecorded"`
	Healthy    bool         `json:"healthy"`
}

// unrecorded is a session in a result.
type unrecorded struct {
	Session segno.SessionID `json:"session"`
	Dir     string          `json:"dir"`
	Why     string          `json:"why"`
	Time    time.Time       `json:"time"`
}

func (a *app) runDoctor(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	place, err := a.place()
	if err != nil {
		return err
	}
	dir, err := a.workDir()
	if err != nil {
		return err
	}
	res := doctorResult{Store: place.Store, Exists: place.Exists(), Others: []string{}, Open: []openItem{}, Failed: []string{}, Failures: []event.Failure{},
		Dir: dir, Unrecorded: []unrecorded{}}
	res.Agent, _ = exec.LookPath("claude") // absent is an answer
	if res.Exists {
		if store, err := place.Open(ctx); err != nil {
			res.StoreErr = err.Error()
		} else {
			if res.Root, err = store.Root(ctx, dir); err != nil {
				res.DirErr = err.Error()
			}
			if store.ReadOnly() {
				res.StoreErr = "it is read-only"
			}
			res.Others, err = others(ctx, store)
			if err = errors.Join(err, store.Close()); err != nil {
				res.StoreErr = err.Error()
			}
		}
	}
	fires, enabled := false, false
	for _, file := range []string{hook.SettingsFile(place, ""), hook.SettingsFile(place, dir)} {
		p := hook.ProbeClaude(ctx, place, file, a.Environ())
		if p.Command == nil && file != hook.SettingsFile(place, "") {
			continue
		}
		fires, enabled = fires || p.Fires, enabled || p.Command != nil || p.Error != ""
		res.Hooks = append(res.Hooks, p)
	}
	res.readSpool(ctx, place)
	works := res.StoreErr == "" && res.DirErr == "" && len(res.Unrecorded) == 0
	res.Healthy = (fires || !enabled && len(res.Others) > 0) && works
	if err := a.print(res, func(w io.Writer) error { return a.writeDoctor(w, res) }); err != nil {
		return err
	}
	if !res.Healthy {
		return segno.Errorf(segno.KindRefused, "doctor", "", "turns are not being recorded").WithHint(res.hint(fires))
	}
	return nil
}

// readSpool adds what hooks left beside the store.
func (r *doctorResult) readSpool(ctx context.Context, place local.Place) {
	if turns, err := place.Spool().Turns(ctx); err == nil {
		for _, t := range turns {
			r.Open = append(r.Open, newOpenItem(t))
		}
	}
	if names, err := place.Spool().Failed(); err == nil {
		r.Failed = append(r.Failed, names...)
	}
	if fs, err := (event.Log{Store: place.Store}).Failures(10); err == nil {
		r.Failures = append(r.Failures, fs...)
	}
	const recent = 24 * time.Hour
	if us, err := place.Spool().Unrecorded(ctx, place.Now().Add(-recent)); err == nil {
		for _, u := range us {
			r.Unrecorded = append(r.Unrecorded, unrecorded{u.Session, u.Dir, u.Why, u.Time})
		}
	}
}

// hint says what to do first about what keeps turns from being recorded.
func (r *doctorResult) hint(fires bool) string {
	switch {
	case r.StoreErr != "":
		return "repair the store, or name another with --store"
	case !fires:
		return "run 'segno enable claude'"
	case r.DirErr != "":
		return "start the agent in a project's own directory"
	}
	return "start those sessions again where segno can record them"
}

// others are the agents that record their turns in another way than by hooks.
func others(ctx context.Context, store segno.Store) ([]string, error) {
	agents := []string{}
	for t, err := range store.Threads(ctx, segno.ThreadQuery{TopLevel: true}) {
		if err != nil {
			return agents, err
		}
		if t.Agent != "" && t.Agent != claude.Agent && !slices.Contains(agents, t.Agent) {
			agents = append(agents, t.Agent)
		}
	}
	slices.Sort(agents)
	return agents, nil
}

// writeDoctor writes one line for each check. It begins with "ok:", "warning:" or "error:".
func (a *app) writeDoctor(w io.Writer, r doctorResult) error {
	p := a.paint(w)
	line := func(mark, format string, args ...any) {
		fmt.Fprintln(w, mark, fmt.Sprintf(format, args...))
	}
	ok, warning, failed := p.added("ok:"), p.gone("warning:"), p.gone("error:")
	if r.StoreErr == "" {
		line(ok, "store %s", inline(r.Store))
	} else {
		line(failed, "store %s: %s", inline(r.Store), inline(r.StoreErr))
	}
	switch {
	case r.DirErr != "":
		line(failed, "%s is not recorded: %s", inline(r.Dir), inline(r.DirErr))
	case r.Root != "" && r.Root != r.Dir:
		line(ok, "%s is recorded as part of %s", inline(r.Dir), inline(r.Root))
	case r.Root != "":
		line(ok, "%s is recorded", inline(r.Dir))
	}
	if r.Agent == "" {
		line(warning, "claude not found on PATH")
	} else {
		line(ok, "agent %s", inline(r.Agent))
	}
	for _, h := range r.Hooks {
		switch {
		case h.Command == nil && h.Error == "" && r.Healthy:
			line(warning, "no hooks of segno in %s: turns of Claude Code are not recorded", inline(h.File))
		case h.Command == nil && h.Error == "":
			line(failed, "no hooks of segno in %s", inline(h.File))
		case h.Command == nil:
			line(failed, "no hooks of segno in %s: %s", inline(h.File), inline(h.Error))
		case h.Fires:
			line(ok, "hooks in %s: %s answered a synthetic event", inline(h.File), commandLine(h.Command))
		default:
			line(failed, "hooks in %s: %s", inline(h.File), inline(h.Error))
		}
		if len(h.Missing) > 0 && h.Command != nil {
			line(warning, "no hooks for %s", strings.Join(h.Missing, ", "))
		}
	}
	for _, agent := range r.Others {
		line(ok, "this directory has turns of %s; they need no hooks", clean(agent))
	}
	for _, u := range r.Unrecorded {
		line(failed, "session %s of %s in %s was not recorded: %s", clean(string(u.Session)), a.when(u.Time), inline(u.Dir), inline(u.Why))
	}
	for _, t := range r.Open {
		line(ok, "open turn of %s, session %s, pid %d, since %s", clean(t.Agent), clean(string(t.Session)), t.PID, a.when(t.start))
	}
	for _, f := range r.Failed {
		line(failed, "a turn could not be recorded and is kept in %s", inline(f))
	}
	for _, f := range r.Failures {
		line(warning, "hook failure at %s: %s: %s", a.when(f.Time), clean(f.Event), clean(f.Error))
	}
	return nil
}
