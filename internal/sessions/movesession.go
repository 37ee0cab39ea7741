package sessions

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
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
in DIR; the next 'segno sessions' or 'segno sessions keep' then removes its transcript. A session
that a process has open is refused.

It moves a session to another directory, and no files; undo, redo and restore move a thread to
another checkpoint.`,
		Example: "  segno sessions move 0b6a1f3e --to ~/renamed",
		Args:    cobra.ExactArgs(1), SuggestFor: []string{"mv", "relocate"},
		RunE: func(c *cobra.Command, args []string) error {
			if to == "" {
				return cli.Usage(errors.New("move needs --to DIR"))
			}
			return a.runMoveSession(c.Context(), args[0], to)
		},
	}
	c.Flags().StringVar(&to, "to", "", "the directory `DIR` to continue in; it must exist")
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
	place, wd, err := a.PlaceAndDir()
	if err != nil {
		return err
	}
	dir := cli.Absolute(wd, to)
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return segno.NewError(segno.KindNotFound, "find directory", to, nil).WithHint("give --to a directory that exists")
	}
	store, err := place.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	s, err := a.SessionNamed(ctx, place, store, name)
	if err != nil {
		return err
	}
	d, err := a.Detail(ctx, store, s)
	if err != nil {
		return err
	}
	m, err := store.SessionTimeline().MoveSession(ctx, cli.KeepRequest(ctx, store, d), dir)
	if err != nil {
		return err
	}
	res := newMoveSessionResult(s.Agent, m)
	return a.Print(res, func(p *cli.Printer) { a.writeMovedSession(p, res, m) })
}

func newMoveSessionResult(agent string, m timeline.MovedSession) moveSessionResult {
	res := moveSessionResult{Agent: agent, Session: m.To.Session, Thread: m.Thread, From: m.From.Path, Path: m.To.Path, Dir: m.To.Dir,
		Command: m.Run, Notes: []string{}, FromBytes: segno.PathBytes(m.From.Path), PathBytes: segno.PathBytes(m.To.Path), DirBytes: segno.PathBytes(m.To.Dir)}
	for _, d := range m.Damage {
		res.Notes = append(res.Notes, damageText(d))
	}
	return res
}

func (a *app) writeMovedSession(p *cli.Printer, res moveSessionResult, m timeline.MovedSession) {
	for _, note := range res.Notes {
		a.Notef("%s", cli.Inline(note))
	}
	switch {
	case m.Same:
		p.Linef("%s is in %s already", cli.Inline(string(res.Session)), cli.QuotePath(res.Dir))
	case res.From == "":
		p.Linef("wrote %s from the store into %s", cli.Inline(string(res.Session)), cli.QuotePath(res.Dir))
	case res.From == res.Path:
		p.Linef("%s finds %s from any directory; nothing was copied", cli.Clean(res.Agent), cli.Inline(string(res.Session)))
	default:
		p.Linef("copied %s into %s; the source stays until the agent has continued it there", cli.Inline(string(res.Session)), cli.QuotePath(res.Dir))
	}
	p.Linef("to continue there:\n  %s", a.RunIn(res.Dir, res.Command))
}
