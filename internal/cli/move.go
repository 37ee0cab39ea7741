package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dalsegno/segno"
)

// moveResult is the result of undo, redo, restore and op undo.
type moveResult struct {
	Operation segno.OperationID `json:"operation"`
	Thread    segno.ThreadID    `json:"thread"`
	Head      segno.CommitID    `json:"head"`
	Turns     []int             `json:"turns"`
	Changes   []change          `json:"changes"`
	Conflicts []segno.Conflict  `json:"conflicts"`
	Kept      []segno.Conflict  `json:"kept"`
	Session   segno.SessionID   `json:"session"`
	Command   []string          `json:"command"`
	Dir       string            `json:"session_dir,omitempty"` // where to run the command
	DryRun    bool              `json:"dry_run,omitempty"`
}

// move previews a move, asks, and makes it.
func (a *app) move(ctx context.Context, d *desk, ask segno.Ask) error {
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
		res := result(plan, nil)
		res.DryRun = true
		return a.print(res, func(w io.Writer) error { return a.writePlan(w, d, plan) })
	}
	if !a.yes {
		if err := a.writePlan(a.Stderr, d, plan); err != nil {
			return err
		}
		if err := a.confirm(string(ask.Verb)); err != nil {
			return err
		}
	}
	moved, err := m.Do(ctx, ask, plan)
	if err != nil {
		return err
	}
	if err := a.print(result(moved.Plan, moved), func(w io.Writer) error { return a.writeMoved(w, d, moved) }); err != nil {
		return err
	}
	if len(moved.Plan.Conflicts) > 0 {
		return errSilent
	}
	return nil
}

func result(p *segno.Plan, moved *segno.Moved) moveResult {
	r := moveResult{Operation: p.Operation, Thread: p.Thread, Head: p.Landing, Turns: append([]int{}, p.Turns...),
		Changes: signed(p.Steps), Conflicts: append([]segno.Conflict{}, p.Conflicts...), Kept: append([]segno.Conflict{}, p.Kept...),
		Command: []string{}}
	if moved == nil {
		return r
	}
	r.Head = moved.Head.ID
	if moved.Link != nil {
		r.Session, r.Command, r.Dir = moved.Link.Session, moved.Run, moved.Link.Dir
	}
	return r
}

// confirm asks on the terminal; without one it refuses.
func (a *app) confirm(verb string) error {
	if !terminal(a.Stdin) {
		return &segno.Error{Op: verb, Kind: segno.KindRefused, Err: errors.New("there is no terminal to ask on"), Hint: "use -y to do it, --dry-run to see it"}
	}
	fmt.Fprint(a.Stderr, "go ahead? [y/N] ")
	answer, err := bufio.NewReader(a.Stdin).ReadString('\n')
	if err != nil && err != io.EOF {
		return fmt.Errorf("read the answer: %w", err)
	}
	if s := strings.ToLower(strings.TrimSpace(answer)); s != "y" && s != "yes" {
		return &segno.Error{Op: verb, Kind: segno.KindRefused, Err: errors.New("nothing was done")}
	}
	return nil
}

// writePlan shows what a move would do.
func (a *app) writePlan(w io.Writer, d *desk, p *segno.Plan) error {
	paint := a.paint(w)
	fmt.Fprintf(w, "%s %s in %s\n", paint.bold(string(p.Verb)), turns(p), inline(d.rec.Path))
	if len(p.Steps) == 0 {
		fmt.Fprintln(w, paint.dim("  no files to write"))
	}
	if err := writeChanges(w, paint, signed(p.Steps), nil); err != nil {
		return err
	}
	a.writeStays(w, p)
	if p.Session != nil && p.Session.Leaf != "" {
		fmt.Fprintln(w, paint.dim("  the conversation goes with it"))
	}
	return nil
}

func turns(p *segno.Plan) string {
	if len(p.Turns) == 0 {
		return p.Args
	}
	names := make([]string, len(p.Turns))
	for i, t := range p.Turns {
		names[i] = fmt.Sprintf("t%d", t)
	}
	return strings.Join(names, ", ")
}

// writeStays shows what a move leaves as it is, and why.
func (a *app) writeStays(w io.Writer, p *segno.Plan) {
	paint := a.paint(w)
	for _, c := range p.Conflicts {
		fmt.Fprintf(w, "  %s %s  %s\n", paint.warn("!"), clean(c.Path), paint.dim(inline(c.Why)))
	}
	for _, k := range p.Kept {
		fmt.Fprintf(w, "  %s %s  %s\n", paint.dim("="), clean(k.Path), paint.dim(inline(k.Why)))
	}
	if p.Git != "" {
		fmt.Fprintf(w, "  git's HEAD was elsewhere then and is left alone; to move it too: %s\n", p.Git)
	}
}

// writeMoved says what a move did and how to go on.
func (a *app) writeMoved(w io.Writer, d *desk, m *segno.Moved) error {
	p := m.Plan
	fmt.Fprintf(w, "%s: now at %s, %s\n", strings.TrimSpace(string(p.Verb)+" "+turns(p)), label(m.Head), wrote(p))
	a.writeStays(w, p)
	switch n := len(p.Conflicts); {
	case n == 1:
		a.say("1 path was left as it is; --force overrides")
	case n > 1:
		a.say("%d paths were left as they are; --force overrides", n)
	}
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

func wrote(p *segno.Plan) string {
	n := segno.CountChanges(p.Steps)
	switch {
	case n.IsZero() && len(p.Steps) > 0:
		return "directories only"
	case n.IsZero():
		return "no files written"
	}
	return "files " + counts(n)
}
