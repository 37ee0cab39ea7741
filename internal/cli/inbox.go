package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) inbox() *cobra.Command {
	return &cobra.Command{
		Use: "inbox", Short: "open questions of all threads", Args: cobra.NoArgs,
		Long: `Lists the questions of Go agents that wait for a decision, in all directories.
'segno chat' answers those of its threads.`,
		Example: "  segno inbox --json",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runInbox(c.Context()) },
	}
}

// inboxItem is one element of inbox --json.
type inboxItem struct {
	Thread segno.ThreadID `json:"thread"`
	segno.Interrupt
}

func (a *app) runInbox(ctx context.Context) error {
	store, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	items := []inboxItem{}
	for q, err := range threadFinder(store).Inbox(ctx, "") {
		if err != nil {
			return err
		}
		items = append(items, inboxItem{segno.ThreadID(q.Thread), q.Interrupt})
	}
	return a.print(items, func(w io.Writer) error {
		p := a.paint(w)
		for _, q := range items {
			what := q.Question
			if what == "" {
				what = string(q.Args)
			}
			_, err := fmt.Fprintf(w, "%s %s %s %s\n", p.bold(pad(short(segno.CommitID(q.Thread)), 6)), p.dim(pad(chat.Age(a.now().Sub(q.Asked)), 4)),
				inline(q.Tool), cleanLines(timeline.Title(what)))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// threadFinder is an agent that only looks for threads.
func threadFinder(store segno.Store) *agent.Agent {
	return agent.New(agent.Config{Name: chat.Name, Store: store})
}

// statuses are what --status takes.
var statuses = [...]agent.Phase{agent.PhaseRunning, agent.PhaseWaiting, agent.PhaseBrokenOff, agent.PhaseDone}

// statusFlag adds --status to threads.
func (a *app) statusFlag(c *cobra.Command, status *string) {
	var names []string
	for _, p := range statuses {
		names = append(names, string(p))
	}
	c.Flags().StringVar(status, "status", "", "only those that are `STATUS`: "+strings.Join(names, ", "))
	if err := c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("segno: internal error: " + err.Error()) // the flag is above
	}
}

// statusItem is one element of threads --status --json.
type statusItem struct {
	segno.Thread
	Status     agent.Phase       `json:"status"`
	Interrupts []segno.Interrupt `json:"interrupts"`
}

// runThreadsByStatus lists the threads that are doing something, without loading others.
func (a *app) runThreadsByStatus(ctx context.Context, all bool, status agent.Phase) error {
	if !slices.Contains(statuses[:], status) {
		return usage(fmt.Errorf("unknown status %q", status))
	}
	store, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
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
	return a.print(items, func(w io.Writer) error {
		p := a.paint(w)
		for _, t := range items {
			if _, err := fmt.Fprintf(w, "%s %s %s %s\n", p.bold(pad(short(segno.CommitID(t.ID)), 6)), p.dim(pad(chat.Age(a.now().Sub(t.Created)), 4)),
				t.Status, cleanLines(timeline.Title(t.Title))); err != nil {
				return err
			}
		}
		return nil
	})
}

// byStatus finds threads. The turns of agents that hooks record are in the spool while they
// are open, and decide what their threads are doing.
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
		if phase != q.Phase {
			continue
		}
		for t, err := range store.Threads(ctx, segno.ThreadQuery{IDPrefix: string(id), Workspace: q.Workspace}) {
			if err != nil {
				return nil, err
			}
			if t.ID == id {
				items = append(items, statusItem{t, phase, []segno.Interrupt{}})
			}
		}
	}
	slices.SortFunc(items, func(a, b statusItem) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return items, nil
}
