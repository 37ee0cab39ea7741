package fleetcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/web/wire"
)

func (a *app) fleet() *cobra.Command {
	return cli.Noun("fleet", "watch the threads that workers run",
		`Shows and changes the mailboxes of a fleet: the prompts of its threads, the questions that
wait for a person, and the workers. Name the fleet with --store postgres://… and
--bucket, or with --remote, the address of 'segno serve'.`,
		a.fleetStatus(), a.fleetThreads(), a.fleetInbox(), a.fleetDecide(), a.fleetRetry(), a.fleetCancel(), a.fleetMigrate())
}

// onFleet makes the RunE of a verb that opens a fleet.
func (a *app) onFleet(f *connectFlags, run func(ctx context.Context, c *connection, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(cmd.Context(), f, true)
		if err != nil {
			return err
		}
		return errors.Join(run(cmd.Context(), c, args), c.close())
	}
}

func (a *app) fleetStatus() *cobra.Command {
	f := &connectFlags{}
	c := &cobra.Command{
		Use: "status", Short: "open prompts and workers", Args: cobra.NoArgs,
		Example: "  segno fleet status --store postgres://localhost/fleet\n  segno fleet status --remote http://127.0.0.1:7777 --json",
		RunE:    a.onFleet(f, a.runFleetStatus),
	}
	a.connectFlags(c, f)
	return c
}

// statusItem is the result of 'segno fleet status'.
type statusItem struct {
	SchemaVersion int `json:"schema_version"`
	wire.FleetStatus
}

// states are the states of prompts.
var states = [...]string{wire.PromptSent, wire.PromptRunning, wire.PromptWaiting, wire.PromptParked, wire.PromptDone, wire.PromptCancelled}

func (a *app) runFleetStatus(ctx context.Context, c *connection, _ []string) error {
	s, err := c.FleetStatus(ctx)
	if err != nil {
		return err
	}
	return a.Print(statusItem{schemaVersion, s}, func(p *cli.Printer) {
		if len(s.Open) == 0 {
			p.Linef("no open prompts")
		}
		for _, n := range s.Open {
			tenant := ""
			if n.Tenant != "" {
				tenant = "  tenant " + cli.Inline(n.Tenant)
			}
			p.Linef("%s %4d  the oldest was sent %s ago%s", cli.Pad(n.State, len("running")), n.Count, age(a.Now().Sub(n.Oldest)), tenant)
		}
		for _, w := range s.Workers {
			state := fmt.Sprintf("runs %s of %s", cli.Plural(w.Running, "turn"), cli.Inline(strings.Join(w.Agents, ", ")))
			if !w.Alive {
				state = "was not seen for " + age(a.Now().Sub(w.Seen))
			}
			p.Linef("worker %s  pid %d on %s  %s", cli.Short(w.ID), w.PID, cli.Inline(w.Host), state)
		}
		if !hasWorker(&s) {
			p.Linef("no worker listens; 'segno worker' starts one")
		}
	})
}

// hasWorker reports whether a worker listens.
func hasWorker(s *wire.FleetStatus) bool {
	return slices.ContainsFunc(s.Workers, func(w wire.FleetWorker) bool { return w.Alive })
}

// age describes how long ago something was.
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func (a *app) fleetThreads() *cobra.Command {
	f := &connectFlags{}
	var state string
	var all bool
	var limit int
	c := &cobra.Command{
		Use: "threads", Short: "the threads with prompts that have not ended", Args: cobra.NoArgs,
		Long: `Lists the threads with prompts that have not ended, each with the prompt whose turn it is.
--all lists every prompt, --state those in one state, and --thread those of a thread.`,
		Example: "  segno fleet threads --store postgres://localhost/fleet\n  segno fleet threads --remote http://127.0.0.1:7777 --state parked\n  segno fleet threads --remote http://127.0.0.1:7777 --thread order-17 --all --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			q := wire.PromptQuery{Thread: segno.ThreadID(a.ThreadName)}
			switch {
			case state != "" && !slices.Contains(states[:], state):
				return cli.Usage(fmt.Errorf("unknown state %q; known are %s", state, strings.Join(states[:], ", ")))
			case state != "" && all:
				return cli.Usage(errors.New("use only one of --state and --all"))
			case limit < 1:
				return cli.Usage(errors.New("--limit is at least 1"))
			case state != "":
				q.States = []string{state}
			}
			return a.onFleet(f, func(ctx context.Context, c *connection, _ []string) error {
				return a.runFleetThreads(ctx, c, q, all, limit)
			})(cmd, args)
		},
	}
	a.connectFlags(c, f)
	c.Flags().StringVar(&state, "state", "", "only prompts that are `STATE`: "+strings.Join(states[:], ", "))
	c.Flags().BoolVar(&all, "all", false, "also prompts that are done or cancelled")
	c.Flags().IntVar(&limit, "limit", 100, "at most `N` prompts")
	cli.CompleteFlag(c, "state", cobra.FixedCompletions(states[:], cobra.ShellCompDirectiveNoFileComp))
	return c
}

// promptList is the result of 'segno fleet threads'.
type promptList struct {
	SchemaVersion int           `json:"schema_version"`
	Prompts       []wire.Prompt `json:"prompts"`
	More          bool          `json:"more"` // there are more than --limit
}

func (a *app) runFleetThreads(ctx context.Context, c *connection, q wire.PromptQuery, all bool, limit int) error {
	list := promptList{SchemaVersion: schemaVersion, Prompts: []wire.Prompt{}}
	queries := []wire.PromptQuery{q}
	if !all && len(q.States) == 0 {
		queries = nil
		for _, state := range []string{wire.PromptRunning, wire.PromptWaiting, wire.PromptParked, wire.PromptSent} {
			one := q
			one.States = []string{state}
			queries = append(queries, one)
		}
	}
	for _, q := range queries {
		more, err := collect(ctx, c, q, limit-len(list.Prompts), &list.Prompts)
		if err != nil {
			return err
		}
		if list.More = more; more {
			break
		}
	}
	return a.PrintLong(list, func(p *cli.Printer) {
		if len(list.Prompts) == 0 {
			a.Notef("no prompts")
		}
		for i := range list.Prompts {
			p.Linef("%s", cli.Fit(a.promptLine(p, &list.Prompts[i]), p.Width()))
		}
		if list.More {
			a.Notef("there are more; use --limit")
		}
	})
}

// collect appends at most limit prompts, and reports whether there are more.
func collect(ctx context.Context, c *connection, q wire.PromptQuery, limit int, to *[]wire.Prompt) (more bool, err error) {
	const page = 200
	for {
		if limit == 0 {
			q.Limit = 1
		} else {
			q.Limit = min(limit, page)
		}
		list, err := c.Prompts(ctx, q)
		if err != nil {
			return false, err
		}
		if limit == 0 {
			return len(list.Prompts) > 0, nil
		}
		*to, limit = append(*to, list.Prompts...), limit-len(list.Prompts)
		if list.Next == "" {
			return false, nil
		}
		before, err := strconv.ParseInt(list.Next, 10, 64)
		if err != nil {
			return false, segno.NewError(segno.KindCorrupt, "list prompts", list.Next, err)
		}
		if before == q.Before {
			return false, errSameWindow("list prompts", list.Next)
		}
		q.Before = before
	}
}

// errSameWindow is the error of a list if the server returns the same cursor again: the client would read the same window without end.
func errSameWindow(op, cursor string) error {
	return segno.Errorf(segno.KindIO, op, cursor, "the server gives the same part of the list again")
}

// promptLine describes a prompt in one line.
func (a *app) promptLine(p *cli.Printer, x *wire.Prompt) string {
	since := x.Sent
	for _, t := range []time.Time{x.Started, x.Ended} {
		if !t.IsZero() {
			since = t
		}
	}
	line := fmt.Sprintf("%s %s %s %s %s", cli.Pad(x.State, len("cancelled")), cli.Pad(age(a.Now().Sub(since)), 4), cli.Pad(cli.Inline(x.Agent), 10),
		cli.Inline(string(x.Thread)), p.Dim(cli.Inline(x.Key)))
	switch {
	case x.State == wire.PromptParked || x.State == wire.PromptSent && x.Error != "":
		line += fmt.Sprintf("  after %s: %s", cli.Plural(x.Attempts, "attempt"), cli.Clean(x.Error))
	case x.State == wire.PromptWaiting && !x.Wake.IsZero():
		line += "  until " + a.When(x.Wake)
	}
	return line
}

func (a *app) fleetInbox() *cobra.Command {
	f := &connectFlags{}
	c := &cobra.Command{
		Use: "inbox", Short: "the questions that wait for a person", Args: cobra.NoArgs,
		Long:    "Lists the questions of all threads that wait for a person. 'segno fleet decide' answers one.",
		Example: "  segno fleet inbox --remote http://127.0.0.1:7777",
		RunE:    a.onFleet(f, a.runFleetInbox),
	}
	a.connectFlags(c, f)
	return c
}

// inboxItem is the result of 'segno fleet inbox'.
type inboxItem struct {
	SchemaVersion int             `json:"schema_version"`
	Questions     []wire.Question `json:"questions"`
}

func (a *app) runFleetInbox(ctx context.Context, c *connection, _ []string) error {
	item := inboxItem{schemaVersion, []wire.Question{}}
	for after := ""; ; {
		list, err := c.Inbox(ctx, after, 200)
		if err != nil {
			return err
		}
		item.Questions = append(item.Questions, list.Questions...)
		if list.Next == "" {
			break
		}
		if list.Next == after {
			return errSameWindow("list questions", after)
		}
		after = list.Next
	}
	return a.PrintLong(item, func(p *cli.Printer) {
		if len(item.Questions) == 0 {
			a.Notef("no questions")
		}
		for i := range item.Questions {
			q := &item.Questions[i]
			p.Linef("%s  %s", cli.Inline(string(q.Thread)), strings.TrimPrefix(questionLine(&q.Interrupt), "waiting "))
		}
	})
}

func (a *app) fleetRetry() *cobra.Command {
	return a.changeVerb("retry", "run a parked prompt again",
		"Runs a parked prompt again. Remove the cause first: 'segno fleet threads --state parked' shows its error.",
		func(ctx context.Context, c *connection, key string) (wire.Prompt, error) {
			return c.Retry(ctx, segno.ThreadID(a.ThreadName), key)
		})
}

func (a *app) fleetCancel() *cobra.Command {
	return a.changeVerb("cancel", "cancel a prompt that has not ended",
		"Cancels a prompt that has not ended. The next prompt of the thread then runs.",
		func(ctx context.Context, c *connection, key string) (wire.Prompt, error) {
			return c.Cancel(ctx, segno.ThreadID(a.ThreadName), key)
		})
}

// changeVerb returns a verb that changes the state of one prompt.
func (a *app) changeVerb(name, short, long string, change func(ctx context.Context, c *connection, key string) (wire.Prompt, error)) *cobra.Command {
	f := &connectFlags{}
	c := &cobra.Command{
		Use: name + " KEY", Short: short, Long: long, Args: cobra.ExactArgs(1),
		Example: "  segno fleet " + name + " --remote http://127.0.0.1:7777 --thread order-17 q1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.ThreadName == "" {
				return cli.Usage(errors.New("--thread is missing"))
			}
			return a.onFleet(f, func(ctx context.Context, c *connection, args []string) error {
				x, err := change(ctx, c, args[0])
				if err != nil {
					return err
				}
				return a.Print(promptItem{schemaVersion, x}, func(p *cli.Printer) {
					p.Linef("the prompt %s of thread %s is %s", cli.Inline(x.Key), cli.Inline(string(x.Thread)), x.State)
				})
			})(cmd, args)
		},
	}
	a.connectFlags(c, f)
	return c
}
