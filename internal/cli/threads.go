package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) threads() *cobra.Command {
	var all bool
	var status string
	c := &cobra.Command{
		Use:     "threads",
		Short:   "the threads of this directory, the most recently changed first",
		Long:    "Lists the threads of this directory, the most recently changed first. In a directory\nthat segno does not know it lists those of every directory, as --all does.",
		Example: "  segno threads\n  segno threads --all --json\n  segno threads --status waiting",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("status") {
				return a.runThreadsByStatus(c.Context(), all, agent.Phase(status))
			}
			return a.runThreads(c.Context(), all)
		},
	}
	a.statusFlag(c, &status)
	c.Flags().BoolVar(&all, "all", false, "of every directory")
	return c
}

// threadItem is one element of threads --json.
type threadItem struct {
	segno.Thread
	Head    segno.CommitID  `json:"head"`
	Turn    int             `json:"turn"`
	Session segno.SessionID `json:"session"`
	Current bool            `json:"current"` // the directory is at this thread
	Dir     string          `json:"dir"`     // where it began

	DirBytes []byte      `json:"dir_bytes,omitempty"`
	Chain    []chainItem `json:"chain"` // the sessions it has held, oldest first
}

// chainItem is one session of a thread's chain.
type chainItem struct {
	Agent    string          `json:"agent"`
	Session  segno.SessionID `json:"session"`
	Dir      string          `json:"dir,omitempty"`
	Start    time.Time       `json:"start"`
	End      time.Time       `json:"end,omitzero"`
	Reason   string          `json:"reason,omitempty"`
	Fidelity segno.Fidelity  `json:"fidelity,omitempty"`
}

func chainOf(ctx context.Context, store segno.Store, thread segno.ThreadID) ([]chainItem, error) {
	items := []chainItem{}
	chains, ok := store.(segno.Chains)
	if !ok {
		return items, nil
	}
	for l, err := range chains.Chain(ctx, thread) {
		if err != nil {
			return nil, err
		}
		items = append(items, chainItem{l.Agent, l.Session, l.Dir, l.Start, l.End, l.Reason, l.Fidelity})
	}
	return items, nil
}

// noWorkspaceHere tells why 'segno threads' lists more than the directory's threads.
const noWorkspaceHere = "segno knows no workspace here; these are the threads of every directory"

func (a *app) runThreads(ctx context.Context, all bool) error {
	if _, err := a.workDir(); err != nil {
		return err
	}
	d, err := a.open(ctx)
	if segno.KindOf(err) == segno.KindNotFound && a.thread == "" {
		if !all {
			a.notef(noWorkspaceHere)
		}
		return a.allThreads(ctx)
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

// allThreads lists every thread of the store, from a directory it does not know.
func (a *app) allThreads(ctx context.Context) error {
	store, err := a.openStore(ctx)
	if segno.KindOf(err) == segno.KindNotFound {
		return a.print([]threadItem{}, func(io.Writer) error { return nil })
	}
	if err != nil {
		return err
	}
	defer store.Close()
	return a.listThreads(ctx, store, segno.ThreadQuery{}, "")
}

func (a *app) listThreads(ctx context.Context, store *local.Store, q segno.ThreadQuery, current segno.ThreadID) error {
	items := []threadItem{}
	for t, err := range store.Threads(ctx, q) {
		if err != nil {
			return err
		}
		head, err := store.Head(ctx, t.ID)
		if err != nil {
			return err
		}
		chain, err := chainOf(ctx, store, t.ID)
		if err != nil {
			return err
		}
		item := threadItem{Thread: t, Head: head.Head, Turn: head.Turn, Session: head.Link.Session, Current: t.ID == current, Chain: chain}
		if rec, err := store.Workspace(ctx, t.Workspace); err == nil { // an agent's thread may have none
			item.Dir, item.DirBytes = rec.Path, segno.PathBytes(rec.Path)
		}
		items = append(items, item)
	}
	return a.printLong(items, func(w io.Writer) error {
		p := a.paint(w)
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
			_, err := fmt.Fprintf(w, "%s %s %s %s t%-4d %s\n", p.bold(sign), p.bold(pad(short(segno.CommitID(t.ID)), 6)),
				p.dim(pad(chat.Age(a.now().Sub(t.Created)), 4)), pad(inline(t.Agent), 7), t.Turn, title)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
