package worldagent

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// playerModel is a model that needs no network. In each turn, it observes the world, acts once by the rules of a
// scripted player, and notes its action. Its answer depends only on the request.
type playerModel struct {
	choose func(segno.Observation) (json.RawMessage, error)
}

// Player returns a model for [Turn] that acts by the rules of a scripted player.
func Player(choose func(segno.Observation) (json.RawMessage, error)) agent.Model {
	return playerModel{choose}
}

// Name implements [agent.Model].
func (playerModel) Name() string { return "offline/player" }

// note is the player's memory of a turn.
type note struct {
	Time    json.RawMessage `json:"time,omitempty"`
	Action  json.RawMessage `json:"action"`
	Refused string          `json:"refused,omitempty"`
	// Lost is true if the result of the action was lost, so the action may have had no effect.
	Lost bool `json:"lost,omitempty"`
}

// Generate implements [agent.Model].
func (m playerModel) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		reply, err := m.answer(r)
		if err == nil {
			err = ctx.Err()
		}
		yield(agent.Chunk{Reply: reply}, err)
	}
}

// answer returns the next step of the turn: a call, or the text that ends the turn.
func (m playerModel) answer(r agent.Request) (*agent.Reply, error) {
	t := turnOf(r.Messages)
	switch {
	case r.NoCalls || len(r.Tools) == 0: // the agent asks for a summary
		return text("I lived here, and my notes are in " + memoryFile + "."), nil
	case t.seen == nil:
		return t.call(toolObserve, struct{}{})
	case t.seen.Error:
		return text(t.seen.Text), nil
	case t.acted == nil:
		action, err := m.choose(json.RawMessage(t.seen.Text))
		if err != nil {
			return nil, err
		}
		return t.call(toolAct, map[string]json.RawMessage{"action": action})
	case t.noted == nil:
		n := note{Action: t.action, Lost: t.acted.Text == lostText}
		var now struct {
			Time json.RawMessage `json:"time"`
		}
		_ = json.Unmarshal([]byte(t.seen.Text), &now) // the observations of a world may have no time
		if n.Time = now.Time; t.acted.Error {
			n.Refused = t.acted.Text
		}
		return t.call(toolRemember, map[string]note{"note": n})
	}
	words := string(t.action)
	if t.acted.Error {
		words += ": " + t.acted.Text
	}
	return text(words), nil
}

// playerTurn has the facts about the newest turn of a conversation.
type playerTurn struct {
	prompt             string // the id of the message
	action             json.RawMessage
	seen, acted, noted *agent.Result
}

func turnOf(messages []agent.Message) (t playerTurn) {
	for _, m := range messages {
		if m.Role == agent.User {
			t = playerTurn{prompt: m.ID}
		}
		for _, p := range m.Parts {
			switch {
			case p.Call != nil && p.Call.Name == toolAct:
				var args struct {
					Action json.RawMessage `json:"action"`
				}
				_ = json.Unmarshal(p.Call.Args, &args) // the player wrote the arguments, so they are valid
				t.action = args.Action
			case p.Result != nil && p.Result.Name == toolObserve:
				t.seen = p.Result
			case p.Result != nil && p.Result.Name == toolAct:
				t.acted = p.Result
			case p.Result != nil && p.Result.Name == toolRemember:
				t.noted = p.Result
			}
		}
	}
	return t
}

// call returns an answer with one call.
func (t playerTurn) call(name string, args any) (*agent.Reply, error) {
	data, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	id := segno.DerivedID("call", strings.Join([]string{t.prompt, name}, " "))
	m := agent.Message{Role: agent.Assistant, Parts: []agent.Part{{Call: &agent.Call{ID: id, Name: name, Args: data}}}}
	return &agent.Reply{Message: m, Stop: agent.StopTools}, nil
}

// text returns an answer that ends the turn.
func text(words string) *agent.Reply {
	return &agent.Reply{Message: agent.Message{Role: agent.Assistant, Parts: []agent.Part{{Text: words}}}, Stop: agent.StopEnd}
}
