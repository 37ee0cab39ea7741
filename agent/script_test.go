package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"

	"github.com/dalsegno/segno/agent"
)

// script is a model that answers by a function of the number of the request and its
// content.
type script struct {
	answer func(n int, q agent.Request, say func(agent.Chunk)) (agent.Reply, error)

	mu    sync.Mutex
	asked []agent.Request
}

func (s *script) Name() string { return "test/script" }

// Generate implements [agent.Model].
func (s *script) Generate(_ context.Context, q agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		s.mu.Lock()
		s.asked = append(s.asked, q)
		n := len(s.asked)
		s.mu.Unlock()
		stopped := false
		reply, err := s.answer(n, q, func(c agent.Chunk) { stopped = stopped || !yield(c, nil) })
		switch {
		case stopped:
		case err != nil:
			yield(agent.Chunk{}, err)
		default:
			yield(agent.Chunk{Reply: &reply}, nil)
		}
	}
}

func (s *script) requests() []agent.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// replies returns a script that gives one reply after the other and then repeats the last.
func replies(all ...agent.Reply) *script {
	return &script{answer: func(n int, _ agent.Request, _ func(agent.Chunk)) (agent.Reply, error) {
		return all[min(n, len(all))-1], nil
	}}
}

func says(text string) agent.Reply {
	return agent.Reply{Stop: agent.StopEnd, Usage: agent.Usage{Input: 3, Output: 5},
		Message: agent.Message{Role: agent.Assistant, Model: "test/script", Parts: []agent.Part{{Text: text}}}}
}

// calls returns an answer with calls, from the id, the name and the arguments of each.
func calls(parts ...string) agent.Reply {
	reply := agent.Reply{Stop: agent.StopTools, Usage: agent.Usage{Input: 3, Output: 5}, Message: agent.Message{Role: agent.Assistant, Model: "test/script"}}
	for i := 0; i < len(parts); i += 3 {
		reply.Message.Parts = append(reply.Message.Parts,
			agent.Part{Call: &agent.Call{ID: parts[i], Name: parts[i+1], Args: json.RawMessage(parts[i+2])}})
	}
	return reply
}

// paired checks that each result in a request follows its call, and each call has
// one result.
func paired(q agent.Request) error {
	open := map[string]bool{}
	for i := range q.Messages {
		m := &q.Messages[i]
		if m.Role != agent.ToolRole && len(open) > 0 {
			return fmt.Errorf("message %d (%s) comes while calls %v have no result", i, m.Role, open)
		}
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				open[p.Call.ID] = true
			case p.Result != nil && !open[p.Result.Call]:
				return fmt.Errorf("message %d has the result of %s, which was not called or has one", i, p.Result.Call)
			case p.Result != nil:
				delete(open, p.Result.Call)
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("calls %v have no result", open)
	}
	return nil
}
