package anthropic

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/dalsegno/segno/agent"
)

// answer is what has come of an answer so far.
type answer struct {
	message anthropic.Message
	whole   map[int64]bool // the blocks that ended, and with arguments that are JSON if it is a call
	ended   bool
}

var (
	errBroken  = errors.New("the answer broke off") // in its midst
	errEmpty   = errors.New("the answer says nothing")
	errNoCalls = errors.New("the answer says that it calls tools, and calls none")
)

// add takes in what came, and returns what of it is to be told at once.
func (a *answer) add(e anthropic.MessageStreamEventUnion) (c agent.Chunk, err error) {
	switch e.Type {
	case "content_block_start":
		c.Text, c.Thinking = e.ContentBlock.Text, e.ContentBlock.Thinking
	case "content_block_delta":
		c.Text, c.Thinking = e.Delta.Text, e.Delta.Thinking
	case "content_block_stop":
		if a.whole == nil {
			a.whole = map[int64]bool{}
		}
		if e.Index < 0 || e.Index >= int64(len(a.message.Content)) {
			return c, fmt.Errorf("%w: the end of block %d, which never began", errBroken, e.Index)
		}
		// The SDK is about to put {} in the place of arguments that are not JSON.
		b := &a.message.Content[e.Index]
		a.whole[e.Index] = b.Type != "tool_use" || json.Valid(b.Input)
	case "message_stop":
		a.ended = true
	}
	if err := a.message.Accumulate(e); err != nil {
		return c, fmt.Errorf("%w: %w", errBroken, err)
	}
	return c, nil
}

// reply is the whole answer. A call that ran into the limit is left out: nobody knows
// what its arguments would have been. Own are the tools' own names; after says that it
// comes after results, where saying nothing means that there is nothing to add.
func (a *answer) reply(name string, own map[string]string, after bool) (*agent.Reply, error) {
	if !a.ended {
		return nil, errBroken
	}
	m := agent.Message{Role: agent.Assistant, Model: name}
	stop := stopOf(a.message.StopReason)
	for i, b := range a.message.Content {
		switch b.Type {
		case "text":
			if b.Text != "" {
				m.Parts = append(m.Parts, agent.Part{Text: b.Text})
			}
		case "thinking", "redacted_thinking":
			m.Parts = append(m.Parts, agent.Part{Thinking: &agent.Thinking{Text: b.Thinking, Data: json.RawMessage(b.RawJSON())}})
		case "tool_use":
			switch {
			case a.whole[int64(i)]:
				m.Parts = append(m.Parts, agent.Part{Call: &agent.Call{ID: b.ID, Name: cmp.Or(own[b.Name], b.Name), Args: b.Input}})
			case stop != agent.StopLength:
				return nil, fmt.Errorf("%w: the arguments of %s are not JSON", errBroken, b.Name)
			}
		}
	}
	switch calls := len(m.Calls()) > 0; {
	case calls || stop == agent.StopLength || stop == agent.StopRefusal:
	case stop == agent.StopTools:
		return nil, errNoCalls
	case strings.TrimSpace(m.Text()) == "" && !after:
		return nil, errEmpty
	}
	u := a.message.Usage
	return &agent.Reply{Message: m, Stop: stop, Usage: agent.Usage{
		Input:     int(u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens),
		Output:    int(u.OutputTokens),
		CacheRead: int(u.CacheReadInputTokens), CacheWrite: int(u.CacheCreationInputTokens),
	}}, nil
}

// stopOf says why the model stopped. A pause is a limit too: the answer would go on.
func stopOf(r anthropic.StopReason) agent.Stop {
	switch r {
	case anthropic.StopReasonToolUse:
		return agent.StopTools
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded, anthropic.StopReasonPauseTurn:
		return agent.StopLength
	case anthropic.StopReasonRefusal:
		return agent.StopRefusal
	}
	return agent.StopEnd
}
