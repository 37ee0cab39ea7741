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
	Conflicts []left            `json:"conflicts"`
	Kept      []left            `json:"kept"`
	Git       string            `json:"git,omitempty"` // what moves git's HEAD, too, if it was elsewhere then
	Session   segno.SessionID   `json:"session"`
	Command   []string          `json:"command"`
	Dir       string            `json:"session_dir,omitempty"` // where to run the command
	DryRun    bool              `json:"dry_run,omitempty"`
}

// move previews a move, asks, and makes it.
func (a *app) move(ctx context.Context, d *desk, ask timeline.MoveRequest) error {
	if a.thread != "" {
		id, err := a.threadNamed(ctx, d.store, a.thread)
		if err != nil {
			return err
		}
		ask.Thread = id
	}
	m := d.mover()
	plan, err := m.Preview(ctx, ask)
	if err != nil {
		return err
	}
	if a.dryRun {
		res, err := result(ctx, d, plan, nil)
		if err != nil {
			return err
		}
		res.DryRun = true
		return a.print(res, func(w io.Writer) error { return a.writePlan(w, d, plan, res) })
	}
	if !a.yes {
		res, err := result(ctx, d, plan, nil)
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
	res, err := result(ctx, d, moved.Plan, moved)
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

func result(ctx context.Context, d *desk, p *timeline.Plan, moved *timeline.MoveResult) (r moveResult, err error) {
	r = moveResult{Operation: p.Operation, Thread: p.Thread, Head: p.Landing, Turns: append([]int{}, p.Turns...),
		Changes: signed(p.Steps), Git: p.Git, Command: []string{}}
	if r.Conflicts, err = leftOf(ctx, d, p.Conflicts, p.Forced); err != nil {
		return r, err
	}
	if r.Kept, err = leftOf(ctx, d, p.Kept, nil); err != nil || moved == nil {
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
		return segno.Errorf(segno.KindRefused, verb, "", "no terminal for the question").WithHint(hint)
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
func (a *app) writePlan(w io.Writer, d *desk, p *timeline.Plan, res moveResult) error {
	paint := a.paint(w)
	fmt.Fprintf(w, "%s %s in %s\n", paint.bold(string(p.Verb)), turns(p), quotePath(d.rec.Path))
	if p.Finishes != "" {
		fmt.Fprintf(w, "  this writes over what the last %s left as it was\n", p.Verb)
	}
	if len(p.Steps) == 0 {
		fmt.Fprintln(w, paint.dim("  no files to write"))
	}
	if err := a.writeBriefly(w, res.Changes); err != nil {
		return err
	}
	if err := a.writeStays(w, res, planLines); err != nil {
		return err
	}
	if p.Session != nil && p.Session.Leaf != "" {
		fmt.Fprintln(w, paint.dim("  the conversation goes with it"))
	}
	return nil
}

func turns(p *timeline.Plan) string {
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

// writeStays shows what a move leaves as it is, and why. Of each conflict it shows at
// most so many lines.
func (a *app) writeStays(w io.Writer, res moveResult, most int) error {
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
		if _, err := fmt.Fprintf(w, "  git's HEAD was elsewhere then and is left alone; to move it too: %s\n", res.Git); err != nil {
			return err
		}
	}
	return nil
}

// writeMoved says what a move did and how to go on.
func (a *app) writeMoved(w io.Writer, d *desk, m *timeline.MoveResult, res moveResult) error {
	p := m.Plan
	fmt.Fprintf(w, "%s: now at %s, %s\n", strings.TrimSpace(string(p.Verb)+" "+turns(p)), label(m.Head), wrote(p))
	merged := slices.DeleteFunc(slices.Clone(res.Changes), func(c change) bool { return !c.Merged })
	if err := a.writeBriefly(w, merged); err != nil {
		return err
	}
	if pathsOf(p) == "" {
		for i := range res.Conflicts {
			res.Conflicts[i].Diff = "" // 'segno diff --conflicts' shows it
		}
	}
	if err := a.writeStays(w, res, 0); err != nil {
		return err
	}
	a.sayLeft(p)
	switch {
	case m.Link != nil && m.Live != 0:
		fmt.Fprintf(w, "the conversation goes on in a new session; end the one running (pid %d) and run:\n  %s\n", m.Live, a.runIn(m.Link.Dir, m.Run))
	case m.Link != nil:
		fmt.Fprintf(w, "to go on with the conversation:\n  %s\n", a.runIn(m.Link.Dir, m.Run))
	case m.Chat != "":
		fmt.Fprintf(w, "conversation: %s\n", inline(m.Chat))
	}
	return nil
}

// sayLeft says how to see conflicts and how to write over them, as far as that can be
// forced.
func (a *app) sayLeft(p *timeline.Plan) {
	n := len(p.Forced)
	if n == 0 {
		return
	}
	was := "1 path was left as it is"
	if n > 1 {
		was = fmt.Sprintf("%d paths were left as they are", n)
	}
	if pathsOf(p) != "" {
		a.say("%s: the same command with --force before -- writes over it", was)
		return
	}
	a.say("%s: 'segno diff --conflicts' shows the difference, 'segno %s --force' writes over it", was, p.Verb)
}

func wrote(p *timeline.Plan) string {
	n := timeline.CountChanges(p.Steps)
	switch {
	case n.IsZero() && len(p.Steps) > 0:
		return "directories only"
	case n.IsZero():
		return "no files written"
	}
	return "files " + counts(n)
}
