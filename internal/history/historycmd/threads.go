package historycmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) threads() *cobra.Command {
	var all bool
	var status string
	c := &cobra.Command{
		Use:   "threads",
		Short: "the threads of this directory, the most recently changed first",
		Long: `Lists the threads of this directory, the most recently changed first. In a directory
that is not in a workspace it lists those of all directories, as --all does.`,
		Example: "  segno threads\n  segno threads --all --json\n  segno threads --status waiting",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("status") {
				return a.runThreads(c.Context(), all)
			}
			if !slices.Contains(statuses[:], agent.Phase(status)) {
				return cli.Usage(fmt.Errorf("unknown status %q", status))
			}
			return a.InStore(func(ctx context.Context, store *local.Store, _ []string) error {
				return a.runThreadsByStatus(ctx, store, all, agent.Phase(status))
			})(c, nil)
		},
	}
	var names []string
	for _, p := range statuses {
		names = append(names, string(p))
	}
	c.Flags().StringVar(&status, "status", "", "only those that are `STATUS`: "+strings.Join(names, ", "))
	cli.CompleteFlag(c, "status", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().BoolVar(&all, "all", false, "list the threads of all directories")
	return c
}

// noWorkspaceHere explains why 'segno threads' lists the threads of other directories.
const noWorkspaceHere = "this directory is not in a workspace; these are the threads of all directories"

// runThreads lists the threads of the directory. In a directory that no workspace contains, it lists
// the threads of the whole store, and none if there is no store.
func (a *app) runThreads(ctx context.Context, all bool) error {
	if _, err := a.WorkDir(); err != nil {
		return err
	}
	d, err := a.Open(ctx)
	if segno.KindOf(err) == segno.KindNotFound && a.ThreadName == "" {
		if !all {
			a.Notef(noWorkspaceHere)
		}
		store, err := a.OpenStore(ctx)
		if segno.KindOf(err) == segno.KindNotFound {
			return a.Print([]history.Thread{}, func(*cli.Printer) {})
		}
		if err != nil {
			return err
		}
		defer store.Close()
		return a.listThreads(ctx, store, segno.ThreadQuery{}, "")
	}
	if err != nil {
		return err
	}
	defer d.Close()
	current, err := d.Timeline.CurrentThread(ctx)
	if err != nil {
		return err
	}
	q := segno.ThreadQuery{Workspace: d.Rec.ID}
	if all {
		q = segno.ThreadQuery{}
	}
	return a.listThreads(ctx, d.Store, q, current)
}

// listThreads prints the threads of a query with their heads and sessions. current is the current thread of the
// directory.
func (a *app) listThreads(ctx context.Context, store *local.Store, q segno.ThreadQuery, current segno.ThreadID) error {
	items := []history.Thread{}
	for t, err := range store.Threads(ctx, q) {
		if err != nil {
			return err
		}
		head, err := store.Head(ctx, t.ID)
		if err != nil {
			return err
		}
		chain, err := history.Chain(ctx, store, t.ID)
		if err != nil {
			return err
		}
		item := history.Thread{Thread: t, Head: head.Head, Turn: head.Turn, Session: head.Link.Session, Current: t.ID == current, Chain: chain}
		if rec, err := store.Workspace(ctx, t.Workspace); err == nil { // the thread of an agent may have no workspace
			item.Dir, item.DirBytes = rec.Path, segno.PathBytes(rec.Path)
		}
		items = append(items, item)
	}
	return a.PrintLong(items, func(p *cli.Printer) {
		if len(items) == 0 {
			a.Notef("no threads yet")
		}
		for _, t := range items {
			sign := " "
			if t.Current {
				sign = "@"
			}
			title := cli.CleanLines(timeline.Title(t.Title))
			if title == "" && t.Parent != "" {
				title = "(fork)"
			}
			lead := fmt.Sprintf("%s %s %s t%-4d ", p.Bold(sign), a.Lead(p.Paint, cli.Short(t.ID), t.Created), cli.Pad(cli.Inline(t.Agent), 7), t.Turn)
			dir := ""
			if q.Workspace == "" && t.Dir != "" {
				dir = "  " + p.Dim(cli.QuotePath(t.Dir))
			}
			if width := p.Width(); width > 0 {
				const least = 12 // columns of the title
				title = cli.Fit(title, max(least, width-cli.Visible(lead+dir)))
			}
			p.Linef("%s", cli.Fit(lead+title+dir, p.Width()))
		}
	})
}

// statuses are the values of --status.
var statuses = [...]agent.Phase{agent.PhaseRunning, agent.PhaseWaiting, agent.PhaseBrokenOff, agent.PhaseDone}

// statusItem is one element of threads --status --json.
type statusItem struct {
	segno.Thread
	Status     agent.Phase       `json:"status"`
	Interrupts []segno.Interrupt `json:"interrupts"`
	Wake       time.Time         `json:"wake,omitzero"` // when a thread that waits continues without an answer
}

// runThreadsByStatus lists the threads with a status. It does not load other threads.
func (a *app) runThreadsByStatus(ctx context.Context, store *local.Store, all bool, status agent.Phase) error {
	q := agent.FindQuery{Phase: status}
	if !all {
		dir, err := a.WorkDir()
		if err != nil {
			return err
		}
		switch rec, err := store.Find(ctx, dir); {
		case err == nil:
			q.Workspace = rec.ID
		case segno.KindOf(err) == segno.KindNotFound:
			a.Notef(noWorkspaceHere)
		default:
			return err
		}
	}
	items, err := byStatus(ctx, store, q)
	if err != nil {
		return err
	}
	return a.Print(items, func(p *cli.Printer) {
		for _, t := range items {
			status := string(t.Status)
			if !t.Wake.IsZero() {
				status += " until " + t.Wake.Local().Format(time.DateTime)
			}
			line := fmt.Sprintf("%s %s %s", a.Lead(p.Paint, cli.Short(t.ID), t.Created), status, cli.CleanLines(timeline.Title(t.Title)))
			p.Linef("%s", cli.Fit(line, p.Width()))
		}
	})
}

// byStatus finds threads. If hooks recorded an open turn of a thread in the spool, that turn
// determines the status of the thread.
func byStatus(ctx context.Context, store *local.Store, q agent.FindQuery) ([]statusItem, error) {
	items := []statusItem{}
	running, err := store.OpenThreads(ctx)
	if err != nil {
		return nil, err
	}
	for f, err := range threadFinder(store).Find(ctx, q) {
		if err != nil {
			return nil, err
		}
		if _, open := running[f.Thread.ID]; !open {
			items = append(items, statusItem{f.Thread, f.Phase, append([]segno.Interrupt{}, f.Interrupts...), f.Wake})
		}
	}
	for id, isRunning := range running {
		phase := agent.PhaseBrokenOff
		if isRunning {
			phase = agent.PhaseRunning
		}
		t, known, err := segno.FindThread(ctx, store, id)
		if err != nil {
			return nil, err
		}
		if known && phase == q.Phase && (q.Workspace == "" || t.Workspace == q.Workspace) {
			items = append(items, statusItem{Thread: t, Status: phase, Interrupts: []segno.Interrupt{}})
		}
	}
	slices.SortFunc(items, func(a, b statusItem) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return items, nil
}

// threadFinder returns an agent that can only look for threads.
func threadFinder(store segno.Store) *agent.Agent {
	return agent.New(agent.Config{Name: chat.Name, Store: store})
}
