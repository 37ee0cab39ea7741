package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/timeline"
)

// Move previews a move, asks, and makes it.
func (a *App) Move(ctx context.Context, d *Workspace, ask timeline.MoveRequest) error {
	if a.ThreadName != "" {
		t, err := a.ThreadNamed(ctx, d.Store, a.ThreadName)
		if err != nil {
			return err
		}
		ask.Thread = t.ID
	}
	if err := a.checkPatch(ask); err != nil {
		return err
	}
	var plan *timeline.Plan // the plan that the user confirmed; nil with -y
	if a.DryRun || !a.Yes {
		var err error
		if plan, err = a.confirmPlan(ctx, d, &ask); err != nil || a.DryRun {
			return err
		}
	}
	moved, err := d.Timeline.Move(ctx, ask, plan)
	if err != nil {
		return err
	}
	res, err := moves.NewResult(ctx, d.Timeline, moved.Plan, moved)
	if err != nil {
		return err
	}
	client := moves.Client(ctx, d.Store, moved.Plan.Thread)
	if err := a.Print(res, func(p *Printer) { a.writeMoved(p, moved, res, client) }); err != nil {
		return err
	}
	if !moved.Plan.Complete() { // the result lists the conflicts; only the exit code is missing
		return ErrSilent
	}
	return nil
}

// confirmPlan shows the plan of a move and, unless it is a dry run, asks the user to confirm it or to choose its parts.
func (a *App) confirmPlan(ctx context.Context, d *Workspace, ask *timeline.MoveRequest) (*timeline.Plan, error) {
	plan, err := d.Timeline.Preview(ctx, *ask)
	if err != nil {
		return nil, err
	}
	res, err := moves.NewResult(ctx, d.Timeline, plan, nil)
	if err != nil {
		return nil, err
	}
	if err := res.Explain(ctx, d.Timeline, plan); err != nil {
		return nil, err
	}
	if res.DryRun = a.DryRun; a.DryRun {
		return plan, a.Print(res, func(p *Printer) { a.WritePlan(p, d, plan, res) })
	}
	a.Bar.Erase()
	p := a.Printer(a.Stderr)
	if a.WritePlan(p, d, plan, res); p.Err != nil {
		return nil, p.Err
	}
	if ask.Parts != nil {
		ask.Parts, err = a.chooseParts(ctx, d, plan)
		return plan, err
	}
	return plan, a.Confirm(string(ask.Verb))
}

// Confirm asks on the terminal. It refuses if there is no terminal.
func (a *App) Confirm(verb string) error {
	if !Terminal(a.Stdin) {
		hint := "use -y to do it, --dry-run to see it"
		if verb == "delete" || verb == "erase" || verb == "pull" { // a dry run of a pull shows no plan of the files
			hint = "use -y to do it"
		}
		return segno.Errorf(segno.KindRefused, verb, "", "no terminal for the confirmation").WithHint(hint)
	}
	fmt.Fprint(a.Stderr, "go ahead? [y/N] ")
	answer, err := bufio.NewReader(a.Stdin).ReadString('\n')
	if err != nil && err != io.EOF {
		return fmt.Errorf("read the answer: %w", err)
	}
	if s := strings.ToLower(strings.TrimSpace(answer)); s != "y" && s != "yes" {
		return segno.Errorf(segno.KindRefused, verb, "", "nothing was done")
	}
	return nil
}

// MoveText returns an empty description of a move that fits the terminal of p.
func (a *App) MoveText(p *Printer) *moves.Text {
	return &moves.Text{Paint: p.role, Verbose: a.verbose}
}

// WritePlan shows the changes that a move would make.
func (a *App) WritePlan(p *Printer, d *Workspace, plan *timeline.Plan, res moves.Result) {
	text := a.MoveText(p)
	text.Plan(d.Rec.Path, plan, res)
	p.Lines(text.Lines())
}

// writeMoved shows the result of a move and the command that continues the conversation. client is the result of
// [moves.Client].
func (a *App) writeMoved(p *Printer, m *timeline.MoveResult, res moves.Result, client int) {
	plan := m.Plan
	text := a.MoveText(p)
	text.Moved(m, res)
	p.Lines(text.Lines())
	n, them := Plural(len(plan.Conflicts), "conflict"), ""
	if len(plan.Forced) < len(plan.Conflicts) {
		them = fmt.Sprintf(" %d of them", len(plan.Forced))
	}
	switch again := string(plan.Verb); {
	case len(plan.Forced) == 0:
	case moves.Paths(plan) != "":
		a.Notef("%s not overwritten: the same command with --force before -- overwrites%s", n, them)
	case moves.IsLimited(plan):
		a.Notef("%s not overwritten: the same command with --force overwrites%s", n, them)
	default:
		if plan.Only {
			again += " " + plan.Args
		}
		a.Notef("%s not overwritten: 'segno diff --conflicts' shows the differences, 'segno %s --force' overwrites%s", n, again, them)
	}
	switch {
	case client != 0 && m.Link != nil:
		p.Linef("the next prompt in the client of 'segno acp' (pid %d) continues the conversation there; without the client:\n  %s",
			client, a.RunIn(m.Link.Dir, m.Run))
	case client != 0 && m.Chat != "":
		p.Linef("the next prompt in the client of 'segno acp' (pid %d) continues the conversation there", client)
	case m.Link != nil && m.Live != 0:
		p.Linef("the conversation continues in a new session; end the running one (pid %d), then run:\n  %s", m.Live, a.RunIn(m.Link.Dir, m.Run))
	case m.Link != nil:
		p.Linef("to go on with the conversation:\n  %s", a.RunIn(m.Link.Dir, m.Run))
	case m.Chat != "":
		p.Linef("conversation: %s", Inline(m.Chat))
	}
}
