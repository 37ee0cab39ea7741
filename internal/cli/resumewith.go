package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/local"
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
	return a.continueWith(ctx, d.timeline, ask, printOnly, d.Close, func(plan *timeline.Continuation) (resumeResult, error) {
		if agent != chat.Name {
			return writeSession(ctx, d.timeline, ask, plan)
		}
		t, _, err := threadByID(ctx, d.store, thread)
		if err != nil {
			return resumeResult{}, err
		}
		fork, err := chat.Import(ctx, d.timeline, plan, t.Title)
		return resumeResult{Dir: d.dir, Session: segno.SessionID(fork), Command: a.chatCommand(d, fork)}, err
	})
}

// resumeSessionWith continues a session, which it keeps first, in another agent.
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
		return a.continueWith(ctx, tl, ask, printOnly, func() { store.Close() }, func(plan *timeline.Continuation) (resumeResult, error) {
			return writeSession(ctx, tl, ask, plan)
		})
	}
	return segno.Errorf(segno.KindNotFound, "resume", string(s.Session), "the session has no recorded turn")
}

// continueWith plans a session of another agent, shows what does not travel, and writes it.
func (a *app) continueWith(ctx context.Context, tl *timeline.Timeline, ask timeline.ContinueRequest, printOnly bool, closeStore func(),
	write func(*timeline.Continuation) (resumeResult, error)) error {
	plan, err := tl.PlanContinue(ctx, ask)
	if err != nil {
		return err
	}
	res := newResumeWithResult(ask.Agent, plan)
	if res.DryRun = a.dryRun; a.dryRun {
		return a.print(res, func(p *printer) { writeContinuation(p, res, plan) })
	}
	if !a.json {
		p := a.printer(a.Stderr)
		if writeContinuation(p, res, plan); p.err != nil {
			return p.err
		}
	}
	if res.resumeResult, err = write(plan); err != nil {
		return err
	}
	res.DirBytes = segno.PathBytes(res.Dir)
	return a.printAndRun(ctx, closeStore, res.resumeResult, res, printOnly)
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
