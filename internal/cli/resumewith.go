package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript"
)

// lost is a number of parts of a conversation that do not travel to another agent.
type lost struct {
	What  transcript.Loss `json:"what"`
	Count int             `json:"count"`
}

// resumeWithResult is the result of resume --with.
type resumeWithResult struct {
	resumeResult
	Agent      string         `json:"agent"`
	Checkpoint segno.CommitID `json:"checkpoint"`
	From       []string       `json:"from"`   // the agents whose messages were written
	Native     segno.CommitID `json:"native"` // the checkpoint up to which the session is the agent's own, or ""
	Messages   int            `json:"messages"`
	Lost       []lost         `json:"lost"`
	DryRun     bool           `json:"dry_run,omitempty"`
}

// runResumeWith continues a checkpoint's conversation in another agent.
func (a *app) runResumeWith(ctx context.Context, d *openWorkspace, name, agent string, printOnly bool) error {
	thread, at, err := a.resumePoint(ctx, d, name)
	if err != nil {
		return err
	}
	ask := timeline.ContinueRequest{Thread: thread, At: at, Agent: agent, Own: chat.Name, Messages: chat.ConversationBetween(d.store)}
	plan, err := d.timeline.PlanContinue(ctx, ask)
	if err != nil {
		return err
	}
	res := newResumeWithResult(agent, plan)
	if res.DryRun = a.dryRun; a.dryRun {
		return a.print(res, func(p *printer) { writeContinuation(p, res, plan) })
	}
	if !a.json {
		p := a.printer(a.Stderr)
		if writeContinuation(p, res, plan); p.err != nil {
			return p.err
		}
	}
	if res.resumeResult, err = a.continueIn(ctx, d, ask, plan); err != nil {
		return err
	}
	res.DirBytes = segno.PathBytes(res.Dir)
	return a.printAndRun(ctx, d.Close, res.resumeResult, res, printOnly)
}

// continueIn writes the session of a plan.
func (a *app) continueIn(ctx context.Context, d *openWorkspace, ask timeline.ContinueRequest, plan *timeline.Continuation) (res resumeResult, err error) {
	if ask.Agent == chat.Name {
		t, _, err := threadByID(ctx, d.store, ask.Thread)
		if err != nil {
			return res, err
		}
		thread, err := chat.Import(ctx, d.timeline, plan, t.Title)
		return resumeResult{Dir: d.dir, Session: segno.SessionID(thread), Command: a.chatCommand(d, thread)}, err
	}
	link, run, err := d.timeline.ContinueIn(ctx, ask, plan)
	if err != nil {
		return res, err
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

// writeContinuation shows what travels and what does not.
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
