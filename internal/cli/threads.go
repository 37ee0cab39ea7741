package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
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
				return usage(fmt.Errorf("unknown status %q", status))
			}
			return a.inStore(func(ctx context.Context, store *local.Store, _ []string) error {
				return a.runThreadsByStatus(ctx, store, all, agent.Phase(status))
			})(c, nil)
		},
	}
	var names []string
	for _, p := range statuses {
		names = append(names, string(p))
	}
	c.Flags().StringVar(&status, "status", "", "only those that are `STATUS`: "+strings.Join(names, ", "))
	completeFlag(c, "status", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().BoolVar(&all, "all", false, "list the threads of all directories")
	return c
}

// noWorkspaceHere explains why 'segno threads' lists the threads of other directories.
const noWorkspaceHere = "this directory is not in a workspace; these are the threads of all directories"

// runThreads lists the threads of the directory. In a directory that no workspace contains, it lists
// the threads of the whole store, and none if there is no store.
func (a *app) runThreads(ctx context.Context, all bool) error {
	if _, err := a.workDir(); err != nil {
		return err
	}
	d, err := a.open(ctx)
	if segno.KindOf(err) == segno.KindNotFound && a.thread == "" {
		if !all {
			a.notef(noWorkspaceHere)
		}
		store, err := a.openStore(ctx)
		if segno.KindOf(err) == segno.KindNotFound {
			return a.print([]history.Thread{}, func(*printer) {})
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
	current, err := d.timeline.CurrentThread(ctx)
	if err != nil {
		return err
	}
	q := segno.ThreadQuery{Workspace: d.rec.ID}
	if all {
		q = segno.ThreadQuery{}
	}
	return a.listThreads(ctx, d.store, q, current)
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
	return a.printLong(items, func(p *printer) {
		if len(items) == 0 {
			a.notef("no threads yet")
		}
		for _, t := range items {
			sign := " "
			if t.Current {
				sign = "@"
			}
			title := cleanLines(timeline.Title(t.Title))
			if title == "" && t.Parent != "" {
				title = "(fork)"
			}
			if q.Workspace == "" && t.Dir != "" {
				title += "  " + p.dim(quotePath(t.Dir))
			}
			p.linef("%s %s %s t%-4d %s", p.bold(sign), a.lead(p.paint, short(t.ID), t.Created), pad(inline(t.Agent), 7), t.Turn, title)
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
}

// runThreadsByStatus lists the threads with a status. It does not load other threads.
func (a *app) runThreadsByStatus(ctx context.Context, store *local.Store, all bool, status agent.Phase) error {
	q := agent.FindQuery{Phase: status}
	if !all {
		dir, err := a.workDir()
		if err != nil {
			return err
		}
		switch rec, err := store.Find(ctx, dir); {
		case err == nil:
			q.Workspace = rec.ID
		case segno.KindOf(err) == segno.KindNotFound:
			a.notef(noWorkspaceHere)
		default:
			return err
		}
	}
	items, err := byStatus(ctx, store, q)
	if err != nil {
		return err
	}
	return a.print(items, func(p *printer) {
		for _, t := range items {
			p.linef("%s %s %s", a.lead(p.paint, short(t.ID), t.Created), t.Status, cleanLines(timeline.Title(t.Title)))
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
			items = append(items, statusItem{f.Thread, f.Phase, append([]segno.Interrupt{}, f.Interrupts...)})
		}
	}
	for id, isRunning := range running {
		phase := agent.PhaseBrokenOff
		if isRunning {
			phase = agent.PhaseRunning
		}
		t, known, err := threadByID(ctx, store, id)
		if err != nil {
			return nil, err
		}
		if known && phase == q.Phase && (q.Workspace == "" || t.Workspace == q.Workspace) {
			items = append(items, statusItem{t, phase, []segno.Interrupt{}})
		}
	}
	slices.SortFunc(items, func(a, b statusItem) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return items, nil
}

// threadFinder returns an agent that can only look for threads.
func threadFinder(store segno.Store) *agent.Agent {
	return agent.New(agent.Config{Name: chat.Name, Store: store})
}

// maxListed is the number of threads in a hint.
const maxListed = 3

// listForHint names the most recently changed threads of a query for which accept is true. It also
// returns the value of --thread for the first of them. Both results are "" if there is no such
// thread. turn is the number of a thread's newest turn. If the query has no workspace, the list
// includes the directories.
func (a *app) listForHint(ctx context.Context, store *local.Store, q segno.ThreadQuery,
	accept func(t segno.Thread, turn int) bool) (list, first string, err error) {
	var names []string
	for t, err := range store.Threads(ctx, q) {
		if err != nil {
			return "", "", err
		}
		head, err := store.Head(ctx, t.ID)
		if err != nil {
			return "", "", err
		}
		if !accept(t, head.Turn) {
			continue
		}
		if len(names) == maxListed {
			return strings.Join(names, ", ") + " and more ('segno threads' lists them)", first, nil
		}
		id := shellQuote(short(t.ID))
		text := fmt.Sprintf("%s (t%d, %s", id, head.Turn, chat.Age(a.now().Sub(t.Created)))
		if title := timeline.Title(t.Title); title != "" {
			text += ", " + quote(fit(title, 40))
		}
		if q.Workspace == "" {
			if rec, err := store.Workspace(ctx, t.Workspace); err == nil {
				text += ", " + quotePath(rec.Path)
			}
		}
		names, first = append(names, text+")"), cmp.Or(first, id)
	}
	return strings.Join(names, ", "), first, nil
}

// addOtherThreads adds the threads of other directories to the error of a directory that
// segno does not know.
func (a *app) addOtherThreads(ctx context.Context, store *local.Store, err error) error {
	all := func(segno.Thread, int) bool { return true }
	list, first, listErr := a.listForHint(ctx, store, segno.ThreadQuery{TopLevel: true}, all)
	if listErr != nil || list == "" {
		return err
	}
	return segno.NewError(segno.KindNotFound, "", "", err).WithHint(fmt.Sprintf(
		"threads of other directories: %s; use --thread %s or -C DIR, or run 'segno enable claude' here", list, first))
}
