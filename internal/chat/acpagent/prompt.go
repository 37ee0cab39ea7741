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

// prompt runs a turn. It first asks the questions that an earlier run left open.
func (s *server) prompt(ctx context.Context, p acp.PromptRequest) (r acp.PromptResponse, err error) {
	cancelled := acp.PromptResponse{StopReason: acp.StopReasonCancelled}
	if ctx.Err() != nil { // cancelled while it waited for the previous prompt
		return cancelled, nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.mu.Lock()
	dir, ok := s.dirs[p.SessionId]
	s.mu.Unlock()
	if !ok {
		return r, segno.Errorf(segno.KindNotFound, "prompt", string(p.SessionId), "the session is not open")
	}
	in, err := inputOf(p.Prompt)
	if err != nil {
		return r, err
	}
	t := s.newUpdater(p.SessionId, nil)
	t.stop = func() { stop(errStopped) }
	c, note, err := s.Open(ctx, string(p.SessionId), dir, t.ask)
	if err != nil {
		return r, err
	}
	defer func() { _ = c.Close() }()
	t.chat = c
	if t.announceCommands() && note != "" {
		t.sendText("(" + note + ")\n\n")
	}
	err = t.turn(ctx, in)
	t.sendMissed(ctx)
	if errors.Is(err, errWaiting) || ctx.Err() != nil {
		return cancelled, nil
	}
	u, reason := t.usage, acp.StopReasonEndTurn
	if t.truncated {
		reason = acp.StopReasonMaxTokens
	}
	return acp.PromptResponse{StopReason: reason, Usage: &acp.Usage{
		InputTokens: u.Input, OutputTokens: u.Output, TotalTokens: u.Input + u.Output,
		CachedReadTokens: acp.Ptr(u.CacheRead), CachedWriteTokens: acp.Ptr(u.CacheWrite)}}, err
}

// errWaiting is the error of a run that waits for decisions that the client did not make.
var errWaiting = errors.New("a call waits for approval")

// turn runs a command, begins a turn, or continues one, depending on the prompt. A prompt that
// the proxy repeats continues its turn if the turn has not ended. If the turn has ended, the
// client lost the answer, and turn sends the answer again.
func (t *updater) turn(ctx context.Context, in input) error {
	at, err := t.chat.Status(ctx)
	if err != nil {
		return err
	}
	t.since = at.Seq
	name := in.command()
	unfinished, continues := isUnfinished(at), in.isEmpty() || name == "/continue"
	var messages []agent.Message
	var places map[string]messagePlace
	if unfinished || continues || in.isRepeat {
		if messages, places, err = t.loadHistory(ctx); err != nil {
			return err
		}
	}
	// A new prompt without an answer may equal an older prompt whose turn has ended.
	isSame := in.isRepeat && (unfinished || in.wasAnswered) && in.isIn(messages)
	switch {
	case name != "" && !continues:
		return t.command(ctx, name, in)
	case !continues && !isSame:
		return t.prompt(ctx, in.withNotes(), at)
	case unfinished:
		return t.run(ctx, agent.Input{}, false)
	}
	t.sendLastAnswer(messages, places)
	return t.err
}

// sendLastAnswer sends the answer of a turn that has ended, in case the client lost it.
func (t *updater) sendLastAnswer(messages []agent.Message, places map[string]messagePlace) {
	if n := len(messages); n > 0 && messages[n-1].Role == agent.Assistant {
		t.sendMessageText(places[messages[n-1].ID], messages[n-1].Text())
	}
}

// isUnfinished reports whether the last turn waits for decisions or stopped before its end.
func isUnfinished(s chat.Status) bool {
	return s.Phase == agent.PhaseBrokenOff || len(s.Interrupts) > 0
}

// loadHistory loads the conversation and the ids under which its calls were announced.
func (t *updater) loadHistory(ctx context.Context) ([]agent.Message, map[string]messagePlace, error) {
	messages, err := t.chat.Messages(ctx)
	if err != nil {
		return nil, nil, err
	}
	places, err := t.loadNames(ctx, messages)
	return messages, places, err
}

// command returns the offered command in a prompt, or "". Only /edit accepts attachments,
// which it sends with its text.
func (in input) command() string {
	name := chat.CommandOf(in.Prompt)
	if len(in.Parts) > 0 && name != "/edit" || !slices.Contains(offeredCommands[:], name) {
		return ""
	}
	return name
}

// prompt runs a turn. It first asks the questions that an earlier run left open.
func (t *updater) prompt(ctx context.Context, in agent.Input, at chat.Status) error {
	if len(at.Interrupts) > 0 {
		if err := t.run(ctx, agent.Input{}, false); err != nil {
			return err
		}
	}
	err := t.run(ctx, in, false)
	if segno.KindOf(err) != segno.KindRefused || ctx.Err() != nil {
		return err
	}
	// The previous turn stopped during a call. Record the call's result, and leave the rest of
	// the turn.
	if at, statusErr := t.chat.Status(ctx); statusErr != nil || !isUnfinished(at) {
		return err
	}
	if err := t.run(ctx, agent.Input{}, true); err != nil {
		return err
	}
	return t.run(ctx, in, false)
}

// run makes one run and sends its events. If untilResults is set, it stops as soon as the
// results of the open calls are saved, before the run asks the model again.
func (t *updater) run(ctx context.Context, in agent.Input, untilResults bool) error {
	waits, results := false, false
	for e, err := range t.chat.Stream(ctx, in) {
		if err != nil {
			return err
		}
		waits = e.Kind == agent.EventInterrupted
		t.sendEvent(e)
		isOwn := e.Agent == "" // not a subagent's
		results = results || isOwn && e.Kind == agent.EventToolResult
		if untilResults && results && isOwn && e.Kind == agent.EventSaved {
			break
		}
	}
	if waits && !untilResults {
		return errWaiting
	}
	return t.err
}
