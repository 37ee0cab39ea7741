package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// moveResult is the result of undo, redo, restore and op undo.
type moveResult struct {
	Operation segno.OperationID `json:"operation"`
	Thread    segno.ThreadID    `json:"thread"`
	Head      segno.CommitID    `json:"head"`
	Turns     []int             `json:"turns"`
	Changes   []change          `json:"changes"`
	Conflicts []unwrittenPath   `json:"conflicts"`
	Kept      []unwrittenPath   `json:"kept"`
	Git       string            `json:"git,omitempty"` // what moves git's HEAD, too, if it was elsewhere then
	Session   segno.SessionID   `json:"session"`
	Command   []string          `json:"command"`
	Dir       string            `json:"session_dir,omitempty"` // where to run the command
	DryRun    bool              `json:"dry_run,omitempty"`
}

// move previews a move, asks, and makes it.
func (a *app) move(ctx context.Context, d *openWorkspace, ask timeline.MoveRequest) error {
	if a.thread != "" {
		id, err := a.threadNamed(ctx, d.store, a.thread)
		if err != nil {
			return err
		}
		ask.Thread = id
	}
	m := d.timeline
	plan, err := m.Preview(ctx, ask)
	if err != nil {
		return err
	}
	if a.dryRun {
		res, err := newMoveResult(ctx, d, plan, nil)
		if err != nil {
			return err
		}
		res.DryRun = true
		return a.print(res, func(w io.Writer) error { return a.writePlan(w, d, plan, res) })
	}
	if !a.yes {
		res, err := newMoveResult(ctx, d, plan, nil)
		if err != nil {
			return err
		}
		a.bar.erase()
		if err := a.writePlan(a.Stderr, d, plan, res); err != nil {
			return err
		}
		if err := a.confirm(string(ask.Verb)); err != nil {
			return err
		}
	}
	moved, err := m.Move(ctx, ask, plan)
	if err != nil {
		return err
	}
	res, err := newMoveResult(ctx, d, moved.Plan, moved)
	if err != nil {
		return err
	}
	if err := a.print(res, func(w io.Writer) error { return a.writeMoved(w, d, moved, res) }); err != nil {
		return err
	}
	if !moved.Plan.Complete() {
		return errSilent
	}
	return nil
}

func newMoveResult(ctx context.Context, d *openWorkspace, p *timeline.Plan, moved *timeline.MoveResult) (r moveResult, err error) {
	r = moveResult{Operation: p.Operation, Thread: p.Thread, Head: p.Landing, Turns: append([]int{}, p.Turns...),
		Changes: signed(p.Steps), Git: p.Git, Command: []string{}}
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
		return segno.Errorf(segno.KindRefused, verb, "", "no terminal to ask on").WithHint(hint)
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

// writePlan shows what a move would do.
func (a *app) writePlan(w io.Writer, d *openWorkspace, p *timeline.Plan, res moveResult) error {
	paint := a.paint(w)
	fmt.Fprintf(w, "%s %s in %s\n", paint.bold(string(p.Verb)), movedTurns(p), quotePath(d.rec.Path))
	if p.Finishes != "" {
		fmt.Fprintf(w, "  this overwrites the conflicts of the last %s\n", p.Verb)
	}
	if len(p.Steps) == 0 {
		fmt.Fprintln(w, paint.dim("  no files to write"))
	}
	if err := a.writeSummary(w, res.Changes); err != nil {
		return err
	}
	if err := a.writeUnwritten(w, res, planLines); err != nil {
		return err
	}
	if p.Session != nil && p.Session.Leaf != "" {
		fmt.Fprintln(w, paint.dim("  the conversation goes with it"))
	}
	return nil
}

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

// pathsOf is the part of an undo's arguments that limits it to paths.
func pathsOf(p *timeline.Plan) string {
	if _, paths, ok := strings.Cut(p.Args, " -- "); ok && p.Verb == segno.VerbUndo {
		return " -- " + paths
	}
	return ""
}

// writeUnwritten shows what a move leaves as it is, and why. Of each conflict it shows at
// most so many lines.
func (a *app) writeUnwritten(w io.Writer, res moveResult, most int) error {
	paint := a.paint(w)
	conflicts, kept := res.Conflicts, res.Kept
	if !a.verbose {
		conflicts, kept = conflicts[:min(len(conflicts), maxPaths)], kept[:min(len(kept), maxPaths)]
	}
	if err := a.writeConflicts(w, conflicts, most); err != nil {
		return err
	}
	if n := len(res.Conflicts) - len(conflicts); n > 0 {
		fmt.Fprintf(w, "  %s and %d more; --verbose lists them\n", paint.warn("!"), n)
	}
	for _, k := range kept {
		if _, err := fmt.Fprintf(w, "  %s %s  %s\n", paint.dim("="), quotePath(k.Path), paint.dim(inline(k.Why))); err != nil {
			return err
		}
	}
	if n := len(res.Kept) - len(kept); n > 0 {
		fmt.Fprintf(w, "  %s and %d more; --verbose lists them\n", paint.dim("="), n)
	}
	if res.Git != "" {
		if _, err := fmt.Fprintf(w, "  git HEAD was at another commit then and does not move; to move it: %s\n", res.Git); err != nil {
			return err
		}
	}
	return nil
}

// writeMoved says what a move did and how to go on.
func (a *app) writeMoved(w io.Writer, d *openWorkspace, m *timeline.MoveResult, res moveResult) error {
	p := m.Plan
	fmt.Fprintf(w, "%s: now at %s, %s\n", strings.TrimSpace(string(p.Verb)+" "+movedTurns(p)), label(m.Head), writtenCounts(p))
	merged := slices.DeleteFunc(slices.Clone(res.Changes), func(c change) bool { return !c.Merged })
	if err := a.writeSummary(w, merged); err != nil {
		return err
	}
	if pathsOf(p) == "" {
		for i := range res.Conflicts {
			res.Conflicts[i].Diff = "" // 'segno diff --conflicts' shows it
		}
	}
	if err := a.writeUnwritten(w, res, 0); err != nil {
		return err
	}
	a.printUnwrittenHint(p)
	switch {
	case m.Link != nil && m.Live != 0:
		fmt.Fprintf(w, "the conversation continues in a new session; end the running one (pid %d), then run:\n  %s\n", m.Live, a.runIn(m.Link.Dir, m.Run))
	case m.Link != nil:
		fmt.Fprintf(w, "to go on with the conversation:\n  %s\n", a.runIn(m.Link.Dir, m.Run))
	case m.Chat != "":
		fmt.Fprintf(w, "conversation: %s\n", inline(m.Chat))
	}
	return nil
}

// printUnwrittenHint says how to see conflicts and how to write over them, as far as that can be
// forced.
func (a *app) printUnwrittenHint(p *timeline.Plan) {
	n := len(p.Forced)
	if n == 0 {
		return
	}
	were := plural(n, "conflict") + " not overwritten"
	if pathsOf(p) != "" {
		a.notef("%s: the same command with --force before -- overwrites", were)
		return
	}
	a.notef("%s: 'segno diff --conflicts' shows the differences, 'segno %s --force' overwrites", were, p.Verb)
}

func writtenCounts(p *timeline.Plan) string {
	n := timeline.CountChanges(p.Steps)
	switch {
	case n.IsZero() && len(p.Steps) > 0:
		return "directories only"
	case n.IsZero():
		return "no files written"
	}
	return "files " + counts(n)
}
