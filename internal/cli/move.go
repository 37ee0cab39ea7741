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
	"github.com/dalsegno/segno/timeline"
)

// moveResult is the result of undo, redo, restore and op undo.
type moveResult struct {
	Operation segno.OperationID `json:"operation"`
	Thread    segno.ThreadID    `json:"thread"`
	Head      segno.CommitID    `json:"head"`
	Turns     []int             `json:"turns"`
	Changes   []history.Change  `json:"changes"`
	Conflicts []unwrittenPath   `json:"conflicts"`
	Kept      []unwrittenPath   `json:"kept"`
	Git       string            `json:"git,omitempty"` // the command that moves git's HEAD, if it was at another commit then
	Session   segno.SessionID   `json:"session"`
	Command   []string          `json:"command"`
	Dir       string            `json:"session_dir,omitempty"` // where to run the command
	DryRun    bool              `json:"dry_run,omitempty"`
}

// move previews a move, asks, and makes it.
func (a *app) move(ctx context.Context, d *openWorkspace, ask timeline.MoveRequest) error {
	if a.thread != "" {
		t, err := a.threadNamed(ctx, d.store, a.thread)
		if err != nil {
			return err
		}
		ask.Thread = t.ID
	}
	plan, err := d.timeline.Preview(ctx, ask)
	if err != nil {
		return err
	}
	if a.dryRun || !a.yes {
		res, err := newMoveResult(ctx, d, plan, nil)
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
	res, err := newMoveResult(ctx, d, moved.Plan, moved)
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

// newMoveResult makes the result of a plan, or of a finished move if moved is not nil.
func newMoveResult(ctx context.Context, d *openWorkspace, p *timeline.Plan, moved *timeline.MoveResult) (r moveResult, err error) {
	r = moveResult{Operation: p.Operation, Thread: p.Thread, Head: p.Target, Turns: append([]int{}, p.Turns...),
		Git: p.Git, Command: []string{}}
	if r.Changes, err = signedIn(ctx, d, p.Steps); err != nil {
		return r, err
	}
	if r.Conflicts, err = unwrittenPaths(ctx, d, p.Conflicts, p.Forced); err != nil {
		return r, err
	}
	if r.Kept, err = unwrittenPaths(ctx, d, p.Kept, nil); err != nil || moved == nil {
		return r, err
	}
	r.Head = moved.Head.ID
	if moved.Link != nil {
		r.Session, r.Command, r.Dir = moved.Link.Session, moved.Run, moved.Link.Dir
	}
	return r, nil
}

// confirm asks on the terminal; without one it refuses.
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

// writePlan shows the changes that a move would make.
func (a *app) writePlan(p *printer, d *openWorkspace, plan *timeline.Plan, res moveResult) {
	p.linef("%s %s in %s", p.bold(string(plan.Verb)), movedTurns(plan), quotePath(d.rec.Path))
	if plan.Finishes != "" {
		p.linef("  this overwrites the conflicts of the last %s", plan.Verb)
	}
	if timeline.OnlyDatabases(plan.Steps) {
		p.linef("%s", p.dim("  no files to write"))
	}
	a.writeSummary(p, res.Changes)
	a.writeUnwritten(p, res, planLines)
	if plan.Session != nil && plan.Session.Leaf != "" {
		p.linef("%s", p.dim("  the conversation moves too"))
	}
}

// movedTurns names the turns that a plan moves over, as "t3, t2", or the target of a restore.
func movedTurns(p *timeline.Plan) string {
	if len(p.Turns) == 0 {
		return p.Args
	}
	names := make([]string, len(p.Turns))
	for i, t := range p.Turns {
		names[i] = fmt.Sprintf("t%d", t)
	}
	return strings.Join(names, ", ") + pathsOf(p)
}

// pathsOf returns the part of an undo's arguments that limits it to paths.
func pathsOf(p *timeline.Plan) string {
	if _, paths, ok := strings.Cut(p.Args, " -- "); ok && p.Verb == segno.VerbUndo {
		return " -- " + paths
	}
	return ""
}

// writeUnwritten shows the paths that a move leaves as they are, and the reasons. It shows at most
// most lines of each conflict; 0 is no limit.
func (a *app) writeUnwritten(p *printer, res moveResult, most int) {
	limit := func(all []unwrittenPath) (shown []unwrittenPath, more int) {
		if a.verbose {
			return all, 0
		}
		shown = all[:min(len(all), maxPaths)]
		return shown, len(all) - len(shown)
	}
	conflicts, more := limit(res.Conflicts)
	p.writeConflicts(conflicts, most)
	if more > 0 {
		p.linef("  %s and %d more; --verbose lists them", p.warn("!"), more)
	}
	kept, more := limit(res.Kept)
	for _, k := range kept {
		p.linef("  %s %s  %s", p.dim("="), quotePath(k.Path), p.dim(inline(k.Why)))
	}
	if more > 0 {
		p.linef("  %s and %d more; --verbose lists them", p.dim("="), more)
	}
	if res.Git != "" {
		p.linef("  git HEAD was at another commit then and does not move; to move it: %s", res.Git)
	}
}

// writeMoved shows the result of a move and the command that continues the conversation.
func (a *app) writeMoved(p *printer, m *timeline.MoveResult, res moveResult) {
	plan := m.Plan
	p.linef("%s: now at %s, %s", strings.TrimSpace(string(plan.Verb)+" "+movedTurns(plan)), label(m.Head), writtenCounts(plan))
	a.writeSummary(p, mergedOf(res.Changes))
	p.changes(writtenDatabases(res))
	if pathsOf(plan) == "" {
		for i := range res.Conflicts {
			res.Conflicts[i].Diff = "" // 'segno diff --conflicts' shows it
		}
	}
	a.writeUnwritten(p, res, 0)
	if n := plural(len(plan.Forced), "conflict"); len(plan.Forced) > 0 && pathsOf(plan) != "" {
		a.notef("%s not overwritten: the same command with --force before -- overwrites", n)
	} else if len(plan.Forced) > 0 {
		a.notef("%s not overwritten: 'segno diff --conflicts' shows the differences, 'segno %s --force' overwrites", n, plan.Verb)
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

// writtenDatabases returns the changes of databases that a move made.
func writtenDatabases(res moveResult) (written []history.Change) {
	for _, c := range res.Changes {
		isConflict := func(u unwrittenPath) bool { return u.Path == databaseLabel(c.Path) }
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
