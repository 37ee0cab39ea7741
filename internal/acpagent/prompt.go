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
	ctx, stop := s.prompts.turn(ctx, string(p.SessionId))
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return acp.PromptResponse{}, err
	}
	defer done()
	s.mu.Lock()
	dir, ok := s.dirs[p.SessionId]
	s.mu.Unlock()
	if !ok {
		return acp.PromptResponse{}, requestError(segno.Errorf(segno.KindNotFound, "prompt", string(p.SessionId), "the session is not open"))
	}
	in, err := inputOf(p.Prompt)
	if err != nil {
		return acp.PromptResponse{}, requestError(err)
	}
	t := s.newUpdater(p.SessionId, nil)
	t.stop = stop
	c, note, err := s.Open(ctx, string(p.SessionId), dir, t.ask)
	if err != nil {
		return acp.PromptResponse{}, requestError(err)
	}
	defer c.Close()
	t.chat = c
	if t.announceCommands() && note != "" {
		t.sendText("(" + note + ")\n\n")
	}
	err = s.turn(ctx, c, t, in)
	t.sendMissed(ctx)
	switch {
	case errors.Is(err, errWaiting), ctx.Err() != nil:
		return acp.PromptResponse{StopReason: acp.StopReasonCancelled}, nil
	case err != nil:
		return acp.PromptResponse{}, requestError(err)
	}
	u, reason := t.usage, acp.StopReasonEndTurn
	if t.truncated {
		reason = acp.StopReasonMaxTokens
	}
	return acp.PromptResponse{StopReason: reason, Usage: &acp.Usage{InputTokens: u.Input, OutputTokens: u.Output, TotalTokens: u.Input + u.Output,
		CachedReadTokens: acp.Ptr(u.CacheRead), CachedWriteTokens: acp.Ptr(u.CacheWrite)}}, nil
}

// errWaiting says that a run waits for what the client did not answer.
var errWaiting = errors.New("a call waits for leave")

func (s *server) turn(ctx context.Context, c *chat.Chat, t *updater, in input) error {
	at, err := c.Status(ctx)
	if err != nil {
		return err
	}
	t.since = at.Seq
	name := chat.CommandOf(in.Prompt)
	// What comes with an edited text is sent with it; other commands take nothing more.
	isCommand := (len(in.Parts) == 0 || name == "/edit") && slices.Contains(offeredCommands[:], name)
	stands, goesOn := at.Phase == agent.PhaseBrokenOff || len(at.Interrupts) > 0, in.isEmpty() || isCommand && name == "/continue"
	var messages []agent.Message
	var places map[string]messagePlace
	if stands || goesOn || in.isRepeat {
		// What is told of a call goes to what was announced of it.
		if messages, err = c.Messages(ctx); err != nil {
			return err
		}
		if places, err = t.loadNames(ctx, messages); err != nil {
			return err
		}
	}
	// A prompt of which nothing was heard may say the same as one that is over.
	came := in.isRepeat && (stands || in.wasAnswered) && in.isIn(messages)
	switch {
	case isCommand && !goesOn:
		return t.command(ctx, name, in)
	case !goesOn && !came:
		return t.prompt(ctx, in.withNotes(), at)
	case stands:
		return t.run(ctx, agent.Input{})
	}
	if n := len(messages); n > 0 && messages[n-1].Role == agent.Assistant {
		t.sendMessageText(places[messages[n-1].ID], messages[n-1].Text()) // the turn was over when its answer got lost
	}
	return t.err
}

// prompt makes a turn of a prompt. What waits from before is asked about first.
func (t *updater) prompt(ctx context.Context, in agent.Input, at chat.Status) error {
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
	if at, lookErr := t.chat.Status(ctx); lookErr != nil || at.Phase != agent.PhaseBrokenOff && len(at.Interrupts) == 0 {
		return err
	}
	if err := t.runUntilResults(ctx); err != nil {
		return err
	}
	return t.run(ctx, in)
}

// run makes one run and tells of it.
func (t *updater) run(ctx context.Context, in agent.Input) error {
	waits := false
	for e, err := range t.chat.Stream(ctx, in) {
		if err != nil {
			return err
		}
		waits = e.Kind == agent.EventInterrupted
		t.sendEvent(e)
	}
	if waits {
		return errWaiting
	}
	return t.err
}

// runUntilResults makes a run up to where the results of the calls are saved. It stops
// listening there, before the model is asked again: a run that has begun to ask may
// have its answer before it hears that nobody wants it.
func (t *updater) runUntilResults(ctx context.Context) error {
	results := false
	for e, err := range t.chat.Stream(ctx, agent.Input{}) {
		if err != nil {
			return err
		}
		t.sendEvent(e)
		own := e.Agent == ""
		results = results || own && e.Kind == agent.EventToolResult
		if results && own && e.Kind == agent.EventSaved {
			break
		}
	}
	return t.err
}
