package acpagent

import (
	"context"
	"errors"
	"slices"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// Prompt makes a turn. What waits from before is asked about first.
func (s *server) Prompt(ctx context.Context, p acp.PromptRequest) (acp.PromptResponse, error) {
	ctx, stop := s.intake.turn(ctx, string(p.SessionId))
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return acp.PromptResponse{}, err
	}
	defer done()
	s.mu.Lock()
	dir, ok := s.dirs[p.SessionId]
	s.mu.Unlock()
	if !ok {
		return acp.PromptResponse{}, failure(segno.Errorf(segno.KindNotFound, "prompt", string(p.SessionId), "the session is not open"))
	}
	in, err := inputOf(p.Prompt)
	if err != nil {
		return acp.PromptResponse{}, failure(err)
	}
	t := s.teller(p.SessionId, nil)
	t.stop = stop
	c, note, err := s.Open(ctx, string(p.SessionId), dir, t.ask)
	if err != nil {
		return acp.PromptResponse{}, failure(err)
	}
	defer c.Close()
	t.chat = c
	if t.offer() && note != "" {
		t.say("(" + note + ")\n\n")
	}
	err = s.turn(ctx, c, t, in)
	t.missed(ctx)
	switch {
	case errors.Is(err, errUnanswered), ctx.Err() != nil:
		return acp.PromptResponse{StopReason: acp.StopReasonCancelled}, nil
	case err != nil:
		return acp.PromptResponse{}, failure(err)
	}
	u, reason := t.usage, acp.StopReasonEndTurn
	if t.cut {
		reason = acp.StopReasonMaxTokens
	}
	return acp.PromptResponse{StopReason: reason, Usage: &acp.Usage{InputTokens: u.Input, OutputTokens: u.Output, TotalTokens: u.Input + u.Output,
		CachedReadTokens: acp.Ptr(u.CacheRead), CachedWriteTokens: acp.Ptr(u.CacheWrite)}}, nil
}

// errUnanswered says that a run waits for what the client did not answer.
var errUnanswered = errors.New("a call waits for leave")

func (s *server) turn(ctx context.Context, c *chat.Chat, t *teller, in input) error {
	at, err := c.Status(ctx)
	if err != nil {
		return err
	}
	t.since = at.Seq
	name := chat.CommandOf(in.Prompt)
	// What comes with an edited text is sent with it; other commands take nothing more.
	isCommand := (len(in.Parts) == 0 || name == "/edit") && slices.Contains(offered[:], name)
	stands, goesOn := at.Broken || len(at.Interrupts) > 0, in.isEmpty() || isCommand && name == "/continue"
	var messages []agent.Message
	var places map[string]place
	if stands || goesOn || in.again {
		// What is told of a call goes to what was announced of it.
		if messages, err = c.Messages(ctx); err != nil {
			return err
		}
		if places, err = t.learn(ctx, messages); err != nil {
			return err
		}
	}
	// A prompt of which nothing was heard may say the same as one that is over.
	came := in.again && (stands || in.heard) && in.isIn(messages)
	switch {
	case isCommand && !goesOn:
		return t.command(ctx, name, in)
	case !goesOn && !came:
		return t.prompt(ctx, in.whole(), at)
	case stands:
		return t.run(ctx, agent.Input{})
	}
	if n := len(messages); n > 0 && messages[n-1].Role == agent.Assistant {
		t.speak(places[messages[n-1].ID], messages[n-1].Text()) // the turn was over when its answer got lost
	}
	return t.err
}

// prompt makes a turn of a prompt. What waits from before is asked about first.
func (t *teller) prompt(ctx context.Context, in agent.Input, at chat.Status) error {
	if len(at.Interrupts) > 0 {
		if err := t.run(ctx, agent.Input{}); err != nil {
			return err
		}
	}
	err := t.run(ctx, in)
	if segno.KindOf(err) != segno.KindRefused || ctx.Err() != nil {
		return err
	}
	// The turn before was broken off in the middle of a call: what came of that is
	// settled first, and the rest of the turn let be.
	if at, lookErr := t.chat.Status(ctx); lookErr != nil || !at.Broken && len(at.Interrupts) == 0 {
		return err
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	return t.run(ctx, in)
}

// run makes one run and tells of it.
func (t *teller) run(ctx context.Context, in agent.Input) error {
	waits := false
	for e, err := range t.chat.Stream(ctx, in) {
		if err != nil {
			return err
		}
		waits = e.Kind == agent.EventInterrupted
		t.tell(e)
	}
	if waits {
		return errUnanswered
	}
	return t.err
}

// settle makes a run up to where the results of the calls are saved. It stops
// listening there, before the model is asked again: a run that has begun to ask may
// have its answer before it hears that nobody wants it.
func (t *teller) settle(ctx context.Context) error {
	results := false
	for e, err := range t.chat.Stream(ctx, agent.Input{}) {
		if err != nil {
			return err
		}
		t.tell(e)
		own := e.Agent == ""
		results = results || own && e.Kind == agent.EventToolResult
		if results && own && e.Kind == agent.EventSaved {
			break
		}
	}
	return t.err
}
