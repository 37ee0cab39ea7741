package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) moveSession() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "move SESSION --to DIR",
		Short: "continue a session in another directory",
		Long: `Makes the agent find a session in another directory, for example after the directory was
renamed or a worktree was removed. The session is kept first, and its files are copied to
where the agent looks for them. The source stays until the agent has continued the session
in DIR; the next 'segno sessions' or 'segno keep' then removes its transcript. A session
that a process has open is refused.`,
		Example: "  segno move 0b6a1f3e --to ~/renamed",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if to == "" {
				return usage(errors.New("move needs --to DIR"))
			}
			return a.runMoveSession(c.Context(), args[0], to)
		},
	}
	c.Flags().StringVar(&to, "to", "", "the directory to continue in; it must exist")
	return c
}

type moveSessionResult struct {
	Agent   string          `json:"agent"`
	Session segno.SessionID `json:"session"`
	Thread  segno.ThreadID  `json:"thread"`
	From    string          `json:"from"` // the transcript, "" if the agent no longer had it
	Path    string          `json:"path"`
	Dir     string          `json:"dir"`
	Command []string        `json:"command"`
	Notes   []string        `json:"notes"` // parts that were not copied

	FromBytes []byte `json:"from_bytes,omitempty"`
	PathBytes []byte `json:"path_bytes,omitempty"`
	DirBytes  []byte `json:"dir_bytes,omitempty"`
}

func (a *app) runMoveSession(ctx context.Context, name, to string) error {
	place, wd, err := a.placeAndDir()
	if err != nil {
		return err
	}
	dir := absolute(wd, to)
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return segno.NewError(segno.KindNotFound, "find directory", to, nil).WithHint("give --to a directory that exists")
	}
	store, err := place.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	s, err := a.sessionNamed(ctx, place, store, name)
	if err != nil {
		return err
	}
	d, err := a.detail(ctx, store, s)
	if err != nil {
		return err
	}
	m, err := store.SessionTimeline().MoveSession(ctx, keepRequest(ctx, store, d), dir)
	if err != nil {
		return err
	}
	res := newMoveSessionResult(s.Agent, m)
	return a.print(res, func(p *printer) { a.writeMovedSession(p, res, m) })
}

func newMoveSessionResult(agent string, m timeline.MovedSession) moveSessionResult {
	res := moveSessionResult{Agent: agent, Session: m.To.Session, Thread: m.Thread, From: m.From.Path, Path: m.To.Path, Dir: m.To.Dir,
		Command: m.Run, Notes: []string{}, FromBytes: segno.PathBytes(m.From.Path), PathBytes: segno.PathBytes(m.To.Path), DirBytes: segno.PathBytes(m.To.Dir)}
	for _, d := range m.Damage {
		res.Notes = append(res.Notes, damageText(d))
	}
	return res
}

func (a *app) writeMovedSession(p *printer, res moveSessionResult, m timeline.MovedSession) {
	for _, note := range res.Notes {
		a.notef("%s", inline(note))
	}
	switch {
	case m.Same:
		p.linef("%s is in %s already", inline(string(res.Session)), quotePath(res.Dir))
	case res.From == "":
		p.linef("wrote %s from the store into %s", inline(string(res.Session)), quotePath(res.Dir))
	case res.From == res.Path:
		p.linef("%s finds %s from any directory; nothing was copied", clean(res.Agent), inline(string(res.Session)))
	default:
		p.linef("copied %s into %s; the source stays until the agent has continued it there", inline(string(res.Session)), quotePath(res.Dir))
	}
	p.linef("to continue there:\n  %s", a.runIn(res.Dir, res.Command))
}

// resumeSession prints the command that continues a session of an agent, and runs it on a terminal.
// The directory is the one of -C, else the session's own, else the current one.
func (a *app) resumeSession(ctx context.Context, store *local.Store, s local.FoundSession, printOnly bool) error {
	s, err := a.withoutDamage(ctx, store, s)
	if err != nil {
		return err
	}
	d, err := a.detail(ctx, store, s)
	if err != nil {
		return err
	}
	dir, err := a.dirToResume(d)
	if err != nil {
		return err
	}
	m, err := store.SessionTimeline().ResumeSession(ctx, keepRequest(ctx, store, d), dir)
	if err != nil {
		return err
	}
	res := resumeResult{Dir: m.To.Dir, Session: m.To.Session, Command: m.Run}
	return a.finishResume(ctx, func() { store.Close() }, res, printOnly)
}

// withoutDamage returns the newest copy of a session that 'segno heal' repaired. It returns the
// session itself if there is no copy, or if the user continued the damaged session after the
// repair.
func (a *app) withoutDamage(ctx context.Context, store *local.Store, s local.FoundSession) (local.FoundSession, error) {
	for t, err := range store.Threads(ctx, segno.ThreadQuery{Session: s.Session, Limit: 1}) {
		if err != nil {
			return s, err
		}
		var own segno.Link
		var repaired segno.SessionID
		for l, err := range store.Chain(ctx, t.ID) {
			switch {
			case err != nil:
				return s, err
			case l.Session == s.Session:
				own, repaired = l, ""
			case l.Reason != healReason:
				own = segno.Link{} // later copies are of that session
			case own.Session == "":
			case own.Reason != healReason || !l.Detached: // a copy beside the head repairs the session before both
				repaired = l.Session
			}
		}
		if repaired != "" {
			a.notef("%s is damaged; this continues its repaired copy %s", inline(string(s.Session)), inline(string(repaired)))
			return a.sessionNamed(ctx, store.Place(), store, string(repaired))
		}
	}
	return s, nil
}

// healReason is the reason that the chain of a thread records for a repaired copy.
const healReason = "heal"

// dirToResume returns the directory in which a session continues.
func (a *app) dirToResume(d local.SessionDetail) (string, error) {
	if fi, err := os.Stat(d.Dir); a.dir == "" && err == nil && fi.IsDir() {
		return d.Dir, nil
	}
	return a.workDir()
}
