package acpagent

import (
	"context"
	"errors"
	"slices"
	"strings"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/preamble"
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
		return acp.PromptResponse{}, failure(&segno.Error{Op: "prompt", Name: string(p.SessionId), Kind: segno.KindNotFound, Err: errors.New("the session is not open")})
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
	u := t.usage
	return acp.PromptResponse{StopReason: acp.StopReasonEndTurn, Usage: &acp.Usage{InputTokens: u.Input, OutputTokens: u.Output, TotalTokens: u.Input + u.Output,
		CachedReadTokens: acp.Ptr(u.CacheRead), CachedWriteTokens: acp.Ptr(u.CacheWrite)}}, nil
}

// errUnanswered says that a run waits for what the client did not answer.
var errUnanswered = errors.New("a call waits for leave")

func (s *server) turn(ctx context.Context, c *chat.Chat, t *teller, in input) error {
	at, err := c.Standing(ctx)
	if err != nil {
		return err
	}
	t.since = at.Seq
	if at.Broken || len(at.Interrupts) > 0 {
		messages, err := c.Messages(ctx)
		if err == nil {
			_, err = t.learn(ctx, messages) // what is told of its calls goes to what was announced
		}
		if err != nil {
			return err
		}
	}
	if name := chat.CommandOf(in.Prompt); len(in.Parts) == 0 && slices.Contains(offered[:], name) {
		if name != "/continue" {
			return t.command(ctx, in.Prompt)
		}
		in = input{}
	}
	if asksToGoOn(in.Input) {
		return s.goOn(ctx, c, t, at, in.Prompt)
	}
	if len(at.Interrupts) > 0 {
		if err := t.run(ctx, agent.Input{}); err != nil {
			return err
		}
	}
	err = t.run(ctx, in.whole())
	if segno.KindOf(err) != segno.KindRefused || ctx.Err() != nil {
		return err
	}
	// The turn before was broken off in the middle of a call: what came of that is
	// settled first, and the rest of the turn let be.
	if at, lookErr := c.Standing(ctx); lookErr != nil || !at.Broken && len(at.Interrupts) == 0 {
		return err
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	return t.run(ctx, in.whole())
}

// asksToGoOn reports whether a prompt says nothing new: segno acp asks an agent so to
// go on with a turn that a failure broke off. What it tells beside we know better.
func asksToGoOn(in agent.Input) bool {
	return len(in.Parts) == 0 && strings.TrimSpace(preamble.Spoken(in.Prompt)) == ""
}

// goOn goes on with a turn that was broken off. One that was over when its answer got
// lost is answered again, and a message that never came here is taken as it is quoted.
func (s *server) goOn(ctx context.Context, c *chat.Chat, t *teller, at chat.Standing, prompt string) error {
	messages, err := c.Messages(ctx)
	if err != nil {
		return err
	}
	asked := preamble.Quoted(prompt)
	came := asked == "" || sameMessage(asked, lastPrompt(messages))
	switch {
	case at.Broken || len(at.Interrupts) > 0:
		if err := t.run(ctx, agent.Input{}); err != nil || came {
			return err
		}
	case came:
		if n := len(messages); n > 0 && messages[n-1].Role == agent.Assistant {
			t.say(messages[n-1].Text())
		}
		return nil
	}
	if strings.Contains(asked, "…") {
		return &segno.Error{Op: "go on", Name: string(t.session), Kind: segno.KindRefused, Err: errors.New("the last message did not come whole"), Hint: "send it again"}
	}
	return t.run(ctx, agent.Input{Prompt: asked})
}

// lastPrompt is what the user said last.
func lastPrompt(messages []agent.Message) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == agent.User {
			return messages[i].Text()
		}
	}
	return ""
}

// sameMessage reports whether a quotation is of a message: a long one is quoted
// without its middle.
func sameMessage(quoted, message string) bool {
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	head, _, cut := strings.Cut(quoted, "…")
	return words(quoted) == words(message) || cut && strings.HasPrefix(words(message), words(head))
}

// run makes one run and tells of it.
func (t *teller) run(ctx context.Context, in agent.Input) error {
	waits := false
	for e, err := range t.chat.Run(ctx, in) {
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
	for e, err := range t.chat.Run(ctx, agent.Input{}) {
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
