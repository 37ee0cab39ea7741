package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/timeline"
)

// move previews a move, asks, and makes it.
func (a *app) move(ctx context.Context, d *openWorkspace, ask timeline.MoveRequest) error {
	if a.thread != "" {
		t, err := a.threadNamed(ctx, d.store, a.thread)
		if err != nil {
			return err
		}
		ask.Thread = t.ID
	}
	var plan *timeline.Plan // the plan that the user confirmed; nil with -y
	if a.dryRun || !a.yes {
		var err error
		if plan, err = d.timeline.Preview(ctx, ask); err != nil {
			return err
		}
		res, err := moves.NewResult(ctx, d.timeline, plan, nil)
		if err != nil {
			return err
		}
		if res.DryRun = a.dryRun; a.dryRun {
			return a.print(res, func(p *printer) { a.writePlan(p, d, plan, res) })
		}
		a.bar.erase()
		p := a.printer(a.Stderr)
		if a.writePlan(p, d, plan, res); p.err != nil {
			return p.err
		}
		if err := a.confirm(string(ask.Verb)); err != nil {
			return err
		}
	}
	moved, err := d.timeline.Move(ctx, ask, plan)
	if err != nil {
		return err
	}
	res, err := moves.NewResult(ctx, d.timeline, moved.Plan, moved)
	if err != nil {
		return err
	}
	if err := a.print(res, func(p *printer) { a.writeMoved(p, moved, res) }); err != nil {
		return err
	}
	if !moved.Plan.Complete() { // the result lists the conflicts; only the exit code is missing
		return errSilent
	}
	return nil
}

// confirm asks on the terminal. It refuses if there is no terminal.
func (a *app) confirm(verb string) error {
	if !terminal(a.Stdin) {
		hint := "use -y to do it, --dry-run to see it"
		if verb == "delete" || verb == "erase" {
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

// moveText returns an empty description of a move that fits the terminal of p.
func (a *app) moveText(p *printer) *moves.Text {
	return &moves.Text{Paint: p.role, Verbose: a.verbose}
}

// writePlan shows the changes that a move would make.
func (a *app) writePlan(p *printer, d *openWorkspace, plan *timeline.Plan, res moves.Result) {
	text := a.moveText(p)
	text.Plan(d.rec.Path, plan, res)
	p.lines(text.Lines())
}

// writeMoved shows the result of a move and the command that continues the conversation.
func (a *app) writeMoved(p *printer, m *timeline.MoveResult, res moves.Result) {
	plan := m.Plan
	p.linef("%s: now at %s, %s", strings.TrimSpace(string(plan.Verb)+" "+moves.Turns(plan))+moves.Whose(plan), label(m.Head), writtenCounts(plan))
	text := a.moveText(p)
	text.Summary(moves.Merged(res.Changes))
	text.Changes(writtenDatabases(res))
	if moves.Paths(plan) == "" {
		for i := range res.Conflicts {
			res.Conflicts[i].Diff = "" // 'segno diff --conflicts' shows it
		}
	}
	text.Unwritten(res, 0)
	p.lines(text.Lines())
	n, them := plural(len(plan.Conflicts), "conflict"), ""
	if len(plan.Forced) < len(plan.Conflicts) {
		them = fmt.Sprintf(" %d of them", len(plan.Forced))
	}
	if len(plan.Forced) > 0 && moves.Paths(plan) != "" {
		a.notef("%s not overwritten: the same command with --force before -- overwrites%s", n, them)
	} else if len(plan.Forced) > 0 {
		a.notef("%s not overwritten: 'segno diff --conflicts' shows the differences, 'segno %s --force' overwrites%s", n, plan.Verb, them)
	}
	switch {
	case m.Link != nil && m.Live != 0:
		p.linef("the conversation continues in a new session; end the running one (pid %d), then run:\n  %s", m.Live, a.runIn(m.Link.Dir, m.Run))
	case m.Link != nil:
		p.linef("to go on with the conversation:\n  %s", a.runIn(m.Link.Dir, m.Run))
	case m.Chat != "":
		p.linef("conversation: %s", inline(m.Chat))
	}
}

func writtenDatabases(res moves.Result) (written []history.Change) {
	for _, c := range res.Changes {
		isConflict := func(u moves.UnwrittenPath) bool { return u.Path == moves.DatabaseLabel(c.Path) }
		if c.Type == string(segno.EntityDatabase) && !slices.ContainsFunc(res.Conflicts, isConflict) {
			written = append(written, c)
		}
	}
	return written
}

// writtenCounts sums up the files that a move wrote.
func writtenCounts(p *timeline.Plan) string {
	n := timeline.CountChanges(p.Steps)
	switch {
	case n.IsZero() && !timeline.OnlyDatabases(p.Steps):
		return "directories only"
	case n.IsZero():
		return "no files written"
	}
	return "files " + counts(n)
}
