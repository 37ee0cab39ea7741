package fleetcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/internal/web/wire"
)

func (a *app) fleetDecide() *cobra.Command {
	f := &connectFlags{}
	var given []segno.Decision
	var reason string
	c := &cobra.Command{
		Use: "decide [JSON|TEXT]", Short: "answer a question of a thread, which wakes it", Args: cobra.MaximumNArgs(1),
		Long: `Answers a question that a turn waits for. The thread then continues on any worker. The id is
that of 'segno fleet inbox', or its first letters.`,
		Example: "  segno fleet decide --remote http://127.0.0.1:7777 --thread order-17 --approve k3xq2a\n  segno fleet decide --store postgres://localhost/fleet --thread order-17 --respond k3xq2a \"the blue one\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := oneDecision(given, reason, args)
			if err == nil && a.ThreadName == "" {
				err = errors.New("--thread is missing")
			}
			if err != nil {
				return cli.Usage(err)
			}
			return a.onFleet(f, func(ctx context.Context, c *connection, _ []string) error {
				return a.runFleetDecide(ctx, c, d)
			})(cmd, args)
		},
	}
	a.connectFlags(c, f)
	for kind, text := range map[segno.DecisionKind]string{
		segno.Approve: "approve the call `ID`",
		segno.Reject:  "reject the call `ID`; see --reason",
		segno.Edit:    "approve the call `ID` with other arguments: --edit ID JSON",
		segno.Respond: "reply in place of the call, or to a question: --respond `ID` TEXT",
	} {
		c.Flags().Func(string(kind), text, func(id string) error {
			if id == "" {
				return errors.New("the id is missing")
			}
			given = append(given, segno.Decision{Interrupt: id, Kind: kind})
			return nil
		})
	}
	c.Flags().StringVar(&reason, "reason", "", "the reason that the agent receives with --reject")
	return c
}

// oneDecision returns the decision of a command line.
func oneDecision(given []segno.Decision, reason string, args []string) (segno.Decision, error) {
	if len(given) != 1 {
		return segno.Decision{}, errors.New("give one of --approve, --reject, --edit and --respond")
	}
	d := given[0]
	needsText := d.Kind == segno.Edit || d.Kind == segno.Respond
	switch {
	case needsText && len(args) == 0:
		return d, fmt.Errorf("--%s %s needs one more argument", d.Kind, d.Interrupt)
	case !needsText && len(args) > 0:
		return d, fmt.Errorf("unexpected argument %q", args[0])
	case reason != "" && d.Kind != segno.Reject:
		return d, errors.New("--reason requires --reject")
	case d.Kind == segno.Edit && !json.Valid([]byte(args[0])):
		return d, fmt.Errorf("--edit %s: the arguments are not JSON", d.Interrupt)
	case d.Kind == segno.Edit:
		d.Args = json.RawMessage(args[0])
	case d.Kind == segno.Respond:
		d.Text = args[0]
	case d.Kind == segno.Reject:
		d.Text = reason
	}
	return d, nil
}

// decidedItem is the result of 'segno fleet decide'.
type decidedItem struct {
	SchemaVersion int            `json:"schema_version"`
	Thread        segno.ThreadID `json:"thread"`
	segno.Decision
}

func (a *app) runFleetDecide(ctx context.Context, c *connection, d segno.Decision) error {
	thread := segno.ThreadID(a.ThreadName)
	open, err := waitsOf(ctx, c, thread)
	if err != nil {
		return err
	}
	i, err := idprefix.Find(idprefix.Query{What: "question", Name: d.Interrupt}, idprefix.Values(open), func(i segno.Interrupt) string { return i.ID })
	if err == nil {
		d.Interrupt = i.ID
	} else if segno.KindOf(err) != segno.KindNotFound { // a question that is answered, or a whole id, which the store knows
		return err
	}
	d.Actor = segno.ActorCommand
	if err := c.Decide(ctx, thread, wire.Decisions{Decisions: []segno.Decision{d}}); err != nil {
		var unknown *segno.Error
		if errors.As(err, &unknown) && segno.KindOf(err) == segno.KindNotFound {
			return unknown.WithHint("'segno fleet inbox' lists the open questions; this one may be answered already")
		}
		return err
	}
	return a.Print(decidedItem{schemaVersion, thread, d}, func(p *cli.Printer) {
		p.Linef("recorded %s for %s; the thread continues", d.Kind, cli.Short(d.Interrupt))
	})
}

// waitsOf returns what the open turn of a thread waits for.
func waitsOf(ctx context.Context, c *connection, thread segno.ThreadID) ([]segno.Interrupt, error) {
	list, err := c.Prompts(ctx, wire.PromptQuery{Thread: thread, States: []string{wire.PromptWaiting}, Limit: 1})
	if err != nil || len(list.Prompts) == 0 {
		return nil, err
	}
	if list, err = c.Prompts(ctx, wire.PromptQuery{Thread: thread, Key: list.Prompts[0].Key, Limit: 1}); err != nil || len(list.Prompts) == 0 {
		return nil, err
	}
	return list.Prompts[0].Waits, nil
}
