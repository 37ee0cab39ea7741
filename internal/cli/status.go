package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "the state of this directory", Args: cobra.NoArgs,
		Example: "  segno status --json",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runStatus(c.Context()) },
	}
}

// statusResult is the result of status.
type statusResult struct {
	Workspace segno.WorkspaceID `json:"workspace"`
	Dir       string            `json:"dir"`
	Store     string            `json:"store"`
	Thread    segno.ThreadID    `json:"thread"`
	Head      *logItem          `json:"head"`
	Session   segno.SessionID   `json:"session"`
	Changed   segno.Counts      `json:"changed"`             // since the head
	Held      []string          `json:"held,omitempty"`      // recorded although a rule protects them by now
	ReadOnly  bool              `json:"read_only,omitempty"` // the store cannot be written; what changed is not known
	Open      []openItem        `json:"open"`                // turns under way
	Waiting   int               `json:"waiting"`             // commits that wait for the store
	Moving    bool              `json:"moving"`              // a move was interrupted; the next command completes it
}

// openItem is an open turn in a result.
type openItem struct {
	Key     segno.TurnKey   `json:"key"`
	Thread  segno.ThreadID  `json:"thread"`
	Agent   string          `json:"agent"`
	Session segno.SessionID `json:"session"`
	Prompt  string          `json:"prompt"`
	Start   string          `json:"start"`
	start   time.Time
	PID     int `json:"pid"`

	Background bool            `json:"background"` // the turn has ended, and its tasks go on
	Tasks      []timeline.Task `json:"tasks"`
}

func newOpenItem(t timeline.OpenTurn) openItem {
	return openItem{Background: t.InBackground(), Tasks: append([]timeline.Task{}, t.Tasks...), Key: t.Key, Thread: t.Thread, Agent: t.Agent, Session: t.Source.Session, Prompt: t.Prompt,
		Start: t.Start.UTC().Format(time.RFC3339Nano), start: t.Start, PID: t.PID}
}

// openItem is an open turn with the tasks of it that still run.
func (a *app) openItem(ctx context.Context, d *openWorkspace, t timeline.OpenTurn) (openItem, error) {
	item := newOpenItem(t)
	if !t.InBackground() {
		return item, nil
	}
	entries, _, err := d.timeline.Spool.Entries(ctx, t.Key)
	item.Tasks = append([]timeline.Task{}, t.RunningTasks(entries)...)
	return item, err
}

func (a *app) runStatus(ctx context.Context) error {
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	s := statusResult{Workspace: d.rec.ID, Dir: d.rec.Path, Store: d.store.Place().Store, Open: []openItem{}, ReadOnly: d.store.ReadOnly()}
	turns, err := d.timeline.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if t.Workspace == d.rec.ID {
			item, err := a.openItem(ctx, d, t)
			if err != nil {
				return err
			}
			if !item.Background || len(item.Tasks) > 0 {
				s.Open = append(s.Open, item)
			}
		}
	}
	waiting, err := d.timeline.Spool.Waiting(ctx)
	if err != nil {
		return err
	}
	s.Waiting = len(waiting)
	plan, err := d.timeline.Spool.ReadPlan(ctx, d.rec.ID)
	if err != nil {
		return err
	}
	s.Moving = plan != nil
	if s.Thread, err = d.timeline.CurrentThread(ctx); err != nil {
		return err
	}
	if s.Thread != "" {
		if err := a.readHead(ctx, d, &s); err != nil {
			return err
		}
	}
	return a.print(s, func(w io.Writer) error { return a.writeStatus(w, s) })
}

func (a *app) readHead(ctx context.Context, d *openWorkspace, s *statusResult) error {
	h, err := readHistory(ctx, d.store, s.Thread)
	if err != nil {
		return err
	}
	c, err := h.find("@")
	if err != nil {
		return err
	}
	item := h.item(c)
	s.Head = &item
	if c.Session == nil || c.Session.Leaf != "" || d.timeline.Transcripts[c.Session.Agent] == nil {
		s.Session = h.head.Link.Session
	}
	if c.Tree().IsZero() || s.ReadOnly {
		return nil
	}
	now, err := d.timeline.Snapshot(ctx)
	if err != nil {
		return err
	}
	s.Held = now.Held
	s.Changed, err = d.timeline.CountFiles(ctx, c.Tree(), now.Tree)
	return err
}

func (a *app) writeStatus(w io.Writer, s statusResult) error {
	fmt.Fprintf(w, "workspace  %s\nstore      %s\n", quotePath(s.Dir), quotePath(s.Store))
	if s.ReadOnly {
		fmt.Fprintln(w, "           read-only: segno records nothing and moves nothing")
	}
	if s.Head == nil {
		fmt.Fprintln(w, "thread     none yet; prompt the agent once, or run 'segno save'")
	} else {
		fmt.Fprintf(w, "thread     %s at t%d (%s)\n", short(segno.CommitID(s.Thread)), s.Head.Turn, s.Head.Kind)
		if s.Session != "" {
			fmt.Fprintf(w, "session    %s\n", inline(string(s.Session)))
		}
		changed := counts(s.Changed)
		switch {
		case s.ReadOnly:
			changed = "unknown"
		case changed == "":
			changed = "nothing"
		}
		fmt.Fprintf(w, "changed    %s since then\n", changed)
		a.writeCoverage(w, s)
	}
	for _, t := range s.Open {
		what := "open turn "
		if t.Background {
			what = "background"
		}
		fmt.Fprintf(w, "%s %s (session %s, pid %d): %s\n", what, clean(t.Agent), clean(string(t.Session)), t.PID, clean(timeline.Title(t.Prompt)))
		for _, task := range t.Tasks {
			fmt.Fprintf(w, "           %s %s is running: %s\n", clean(task.Kind), clean(task.ID), clean(timeline.Title(task.What)))
		}
	}
	if s.Waiting > 0 {
		fmt.Fprintf(w, "waiting    %s: the store was busy; the next command that moves or records retries\n", plural(s.Waiting, "commit"))
	}
	if s.Moving {
		fmt.Fprintln(w, "a move was interrupted; the next command that moves or records completes it")
	}
	return nil
}
