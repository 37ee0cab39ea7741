package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript"
)

// lost counts the parts of a conversation of one kind that another agent cannot receive.
type lost struct {
	What  transcript.Loss `json:"what"`
	Count int             `json:"count"`
}

// ResumeWithResult is the result of a conversation that continues in another agent.
type ResumeWithResult struct {
	ResumeResult
	Agent      string         `json:"agent"`
	Checkpoint segno.CommitID `json:"checkpoint"`
	From       []string       `json:"from"`   // the agents whose messages were written
	Native     segno.CommitID `json:"native"` // the checkpoint up to which the session is the agent's own, or ""
	Messages   int            `json:"messages"`
	Lost       []lost         `json:"lost"`
	Restore    *moves.Result  `json:"restore,omitempty"` // of the checkpoint, if the thread was elsewhere
	DryRun     bool           `json:"dry_run,omitempty"`
}

// Continuation is a request of the command line to continue in another agent.
type Continuation struct {
	Tl        *timeline.Timeline
	Ask       timeline.ContinueRequest
	RestoreIn *Workspace // the workspace in which to restore the checkpoint first; nil if the files stay
	Print     bool
	Close     func()
	Write     func(*timeline.Continuation) (ResumeResult, error)
}

// ContinueWith plans a session of another agent and shows the parts that it cannot contain. It
// restores the checkpoint if the thread is elsewhere, and writes the session.
func (a *App) ContinueWith(ctx context.Context, c Continuation) error {
	plan, err := c.Tl.PlanContinue(ctx, c.Ask)
	if err != nil {
		return err
	}
	res := newResumeWithResult(c.Ask.Agent, plan)
	before, err := planRestore(ctx, c.RestoreIn, c.Ask.Thread, plan.At, &res)
	if err != nil {
		return err
	}
	show := func(p *Printer) {
		writeContinuation(p, res, plan)
		if before != nil {
			a.WritePlan(p, before.D, before.Plan, *res.Restore)
		}
	}
	if res.DryRun = a.DryRun; a.DryRun {
		return a.Print(res, show)
	}
	if !a.JSON || before != nil && !a.Yes {
		p := a.Printer(a.Stderr)
		if show(p); p.Err != nil {
			return p.Err
		}
	}
	if before != nil {
		if err := a.RestoreBefore(ctx, before, &res); err != nil {
			return err
		}
	}
	if res.ResumeResult, err = c.Write(plan); err != nil {
		return err
	}
	res.DirBytes = segno.PathBytes(res.Dir)
	return a.PrintAndRun(ctx, c.Close, res.ResumeResult, res, c.Print)
}

// PendingRestore is a restore to make before the session of another agent is written.
type PendingRestore struct {
	Verb string // the verb of the command that restores, for the confirmation
	D    *Workspace
	Ask  timeline.MoveRequest
	Plan *timeline.Plan
}

// planRestore plans the restore of a checkpoint. It returns nil if the thread is there, if the
// checkpoint has no files, or if d is nil.
func planRestore(ctx context.Context, d *Workspace, thread segno.ThreadID, c *segno.Checkpoint, res *ResumeWithResult) (*PendingRestore, error) {
	if d == nil || c.Workspace == nil {
		return nil, nil
	}
	head, err := d.Store.Head(ctx, thread)
	if err != nil || head.Head == c.ID {
		return nil, err
	}
	b := &PendingRestore{Verb: "resume", D: d, Ask: timeline.MoveRequest{Verb: segno.VerbRestore, Thread: thread, To: c.ID, Name: Label(c), Scope: timeline.ScopeBoth}}
	if b.Plan, err = d.Timeline.Preview(ctx, b.Ask); err != nil {
		return nil, err
	}
	restore, err := moves.NewResult(ctx, d.Timeline, b.Plan, nil)
	res.Restore = &restore
	return b, err
}

// RestoreBefore asks the user to confirm the restore, and makes it.
func (a *App) RestoreBefore(ctx context.Context, b *PendingRestore, res *ResumeWithResult) error {
	if !a.Yes {
		if err := a.Confirm(b.Verb); err != nil {
			return err
		}
	}
	moved, err := b.D.Timeline.Move(ctx, b.Ask, b.Plan)
	if err != nil {
		return err
	}
	restore, err := moves.NewResult(ctx, b.D.Timeline, moved.Plan, moved)
	if err != nil {
		return err
	}
	res.Restore = &restore
	if a.JSON {
		return nil
	}
	p := a.Printer(a.Stderr)
	p.Linef("restore: now at %s, %s", Label(moved.Head), moves.WrittenCounts(moved.Plan))
	text := a.MoveText(p)
	text.Unwritten(restore, 0)
	text.Saved(moved)
	p.Lines(text.Lines())
	return p.Err
}

// WriteSession writes the planned session of another agent, and returns the command that continues it.
func WriteSession(ctx context.Context, tl *timeline.Timeline, ask timeline.ContinueRequest, plan *timeline.Continuation) (ResumeResult, error) {
	link, run, err := tl.ContinueIn(ctx, ask, plan)
	if err != nil {
		return ResumeResult{}, err
	}
	return ResumeResult{Dir: link.Dir, Session: link.Session, Command: run}, nil
}

func newResumeWithResult(agent string, plan *timeline.Continuation) ResumeWithResult {
	res := ResumeWithResult{Agent: agent, Checkpoint: plan.At.ID, From: plan.From, Messages: len(plan.Conversation.Messages), Lost: []lost{}}
	res.Command = []string{}
	if plan.Native != nil {
		res.Native = plan.Native.ID
	}
	for _, what := range slices.Sorted(maps.Keys(plan.Lost)) {
		res.Lost = append(res.Lost, lost{what, plan.Lost[what]})
	}
	return res
}

// writeContinuation shows which parts of the conversation the other agent receives, and which it
// does not.
func writeContinuation(p *Printer, res ResumeWithResult, plan *timeline.Continuation) {
	line := fmt.Sprintf("continue %s of %s in %s", Plural(res.Messages, "message"), Clean(strings.Join(res.From, ", ")), res.Agent)
	if plan.Native != nil {
		line += fmt.Sprintf(", behind its own session up to %s", Label(plan.Native))
	}
	p.Linef("%s", line)
	for _, l := range res.Lost {
		p.Linef("  %s %s", p.Warn("!"), lostText(l))
	}
	if len(res.Lost) == 0 {
		p.Linef("%s", p.Dim("  everything travels"))
	}
}

// lostText describes a loss: "12 reasoning blocks do not travel".
func lostText(l lost) string {
	noun, rest, _ := strings.Cut(string(l.What), " of ")
	noun, that, hasThat := strings.Cut(noun, " that ")
	text := Plural(l.Count, noun)
	if rest != "" {
		text += " of " + rest
	}
	if hasThat {
		text += " that " + that
	}
	one, many := "does not travel", "do not travel"
	switch l.What {
	case transcript.LostLengths:
		one, many = "may be shortened", "may be shortened"
	case transcript.LostNames:
		one, many = "changes", "change"
	}
	if l.Count == 1 {
		return text + " " + one
	}
	return text + " " + many
}
