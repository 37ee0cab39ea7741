package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript"
)

// lost counts the parts of a conversation of one kind that another agent cannot receive.
type lost struct {
	What  transcript.Loss `json:"what"`
	Count int             `json:"count"`
}

type resumeWithResult struct {
	resumeResult
	Agent      string         `json:"agent"`
	Checkpoint segno.CommitID `json:"checkpoint"`
	From       []string       `json:"from"`   // the agents whose messages were written
	Native     segno.CommitID `json:"native"` // the checkpoint up to which the session is the agent's own, or ""
	Messages   int            `json:"messages"`
	Lost       []lost         `json:"lost"`
	Restore    *moves.Result  `json:"restore,omitempty"` // of the checkpoint, if the thread was elsewhere
	DryRun     bool           `json:"dry_run,omitempty"`
}

type resumeFlags struct {
	with            string // the agent to continue in, "" for the same agent
	print, chatOnly bool
}

// runResumeWith continues a checkpoint's conversation in another agent. If the thread is elsewhere,
// it first restores the checkpoint, so that the agent finds the files of the conversation.
func (a *app) runResumeWith(ctx context.Context, d *openWorkspace, name string, flags resumeFlags) error {
	thread, at, err := a.resumePoint(ctx, d, name)
	if err != nil {
		return err
	}
	agent := flags.with
	ask := timeline.ContinueRequest{Thread: thread, At: at, Agent: agent, Own: chat.Name, Messages: chat.ConversationBetween(d.store)}
	c := continuation{tl: d.timeline, ask: ask, print: flags.print, close: d.Close}
	if !flags.chatOnly {
		c.restoreIn = d
	}
	c.write = func(plan *timeline.Continuation) (resumeResult, error) {
		if agent != chat.Name {
			return writeSession(ctx, d.timeline, ask, plan)
		}
		t, _, err := threadByID(ctx, d.store, thread)
		if err != nil {
			return resumeResult{}, err
		}
		fork, err := chat.Import(ctx, d.timeline, plan, t.Title)
		return resumeResult{Dir: d.dir, Session: segno.SessionID(fork), Command: a.chatCommand(d, fork)}, err
	}
	return a.continueWith(ctx, c)
}

// resumeSessionWith keeps a session and then continues it in another agent.
func (a *app) resumeSessionWith(ctx context.Context, store *local.Store, s local.FoundSession, agent string, printOnly bool) error {
	if agent == chat.Name {
		return segno.Errorf(segno.KindRefused, "resume", string(s.Session), "segno's own agent continues threads").
			WithHint("run 'segno keep " + string(s.Session) + "' and resume its thread")
	}
	d, err := a.detail(ctx, store, s)
	if err != nil {
		return err
	}
	dir, err := a.dirToResume(d)
	if err != nil {
		return err
	}
	tl := store.SessionTimeline()
	kept, err := tl.KeepSession(ctx, keepRequest(ctx, store, d))
	if err != nil {
		return err
	}
	for c, err := range store.Checkpoints(ctx, segno.CheckpointQuery{Thread: kept.Thread, Session: s.Session}) {
		if err != nil {
			return err
		}
		ask := timeline.ContinueRequest{Thread: kept.Thread, At: c.ID, Agent: agent, Own: chat.Name, Messages: chat.ConversationBetween(store), Dir: dir}
		return a.continueWith(ctx, continuation{tl: tl, ask: ask, print: printOnly, close: func() { store.Close() },
			write: func(plan *timeline.Continuation) (resumeResult, error) { return writeSession(ctx, tl, ask, plan) }})
	}
	return segno.Errorf(segno.KindNotFound, "resume", string(s.Session), "the session has no recorded turn")
}

// continuation is a request of the command line to continue in another agent.
type continuation struct {
	tl        *timeline.Timeline
	ask       timeline.ContinueRequest
	restoreIn *openWorkspace // the workspace in which to restore the checkpoint first; nil if the files stay
	print     bool
	close     func()
	write     func(*timeline.Continuation) (resumeResult, error)
}

// continueWith plans a session of another agent and shows the parts that it cannot contain. It
// restores the checkpoint if the thread is elsewhere, and writes the session.
func (a *app) continueWith(ctx context.Context, c continuation) error {
	plan, err := c.tl.PlanContinue(ctx, c.ask)
	if err != nil {
		return err
	}
	res := newResumeWithResult(c.ask.Agent, plan)
	before, err := planRestore(ctx, c.restoreIn, c.ask.Thread, plan.At, &res)
	if err != nil {
		return err
	}
	show := func(p *printer) {
		writeContinuation(p, res, plan)
		if before != nil {
			a.writePlan(p, before.d, before.plan, *res.Restore)
		}
	}
	if res.DryRun = a.dryRun; a.dryRun {
		return a.print(res, show)
	}
	if !a.json || before != nil && !a.yes {
		p := a.printer(a.Stderr)
		if show(p); p.err != nil {
			return p.err
		}
	}
	if before != nil {
		if err := a.restoreBefore(ctx, before, &res); err != nil {
			return err
		}
	}
	if res.resumeResult, err = c.write(plan); err != nil {
		return err
	}
	res.DirBytes = segno.PathBytes(res.Dir)
	return a.printAndRun(ctx, c.close, res.resumeResult, res, c.print)
}

// pendingRestore is a restore to make before the session of another agent is written.
type pendingRestore struct {
	d    *openWorkspace
	ask  timeline.MoveRequest
	plan *timeline.Plan
}

// planRestore plans the restore of a checkpoint. It returns nil if the thread is there, if the
// checkpoint has no files, or if d is nil.
func planRestore(ctx context.Context, d *openWorkspace, thread segno.ThreadID, c *segno.Checkpoint, res *resumeWithResult) (*pendingRestore, error) {
	if d == nil || c.Workspace == nil {
		return nil, nil
	}
	head, err := d.store.Head(ctx, thread)
	if err != nil || head.Head == c.ID {
		return nil, err
	}
	b := &pendingRestore{d: d, ask: timeline.MoveRequest{Verb: segno.VerbRestore, Thread: thread, To: c.ID, Name: label(c), Scope: timeline.ScopeBoth}}
	if b.plan, err = d.timeline.Preview(ctx, b.ask); err != nil {
		return nil, err
	}
	restore, err := moves.NewResult(ctx, d.timeline, b.plan, nil)
	res.Restore = &restore
	return b, err
}

// restoreBefore asks the user to confirm the restore, and makes it.
func (a *app) restoreBefore(ctx context.Context, b *pendingRestore, res *resumeWithResult) error {
	if !a.yes {
		if err := a.confirm("resume"); err != nil {
			return err
		}
	}
	moved, err := b.d.timeline.Move(ctx, b.ask, b.plan)
	if err != nil {
		return err
	}
	restore, err := moves.NewResult(ctx, b.d.timeline, moved.Plan, moved)
	if err != nil {
		return err
	}
	res.Restore = &restore
	if a.json {
		return nil
	}
	p := a.printer(a.Stderr)
	p.linef("restore: now at %s, %s", label(moved.Head), writtenCounts(moved.Plan))
	text := a.moveText(p)
	text.Unwritten(restore, 0)
	p.lines(text.Lines())
	return p.err
}

func writeSession(ctx context.Context, tl *timeline.Timeline, ask timeline.ContinueRequest, plan *timeline.Continuation) (resumeResult, error) {
	link, run, err := tl.ContinueIn(ctx, ask, plan)
	if err != nil {
		return resumeResult{}, err
	}
	return resumeResult{Dir: link.Dir, Session: link.Session, Command: run}, nil
}

func newResumeWithResult(agent string, plan *timeline.Continuation) resumeWithResult {
	res := resumeWithResult{Agent: agent, Checkpoint: plan.At.ID, From: plan.From, Messages: len(plan.Conversation.Messages), Lost: []lost{}}
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
func writeContinuation(p *printer, res resumeWithResult, plan *timeline.Continuation) {
	line := fmt.Sprintf("continue %s of %s in %s", plural(res.Messages, "message"), clean(strings.Join(res.From, ", ")), res.Agent)
	if plan.Native != nil {
		line += fmt.Sprintf(", behind its own session up to %s", label(plan.Native))
	}
	p.linef("%s", line)
	for _, l := range res.Lost {
		p.linef("  %s %s", p.warn("!"), lostText(l))
	}
	if len(res.Lost) == 0 {
		p.linef("%s", p.dim("  everything travels"))
	}
}

// lostText describes a loss: "12 reasoning blocks do not travel".
func lostText(l lost) string {
	noun, rest, _ := strings.Cut(string(l.What), " of ")
	noun, that, hasThat := strings.Cut(noun, " that ")
	text := plural(l.Count, noun)
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
